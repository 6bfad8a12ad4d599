"""The numbered records: what is in each of them, and what must come out. Known to all, so nothing is kept."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

BEGAN_MS = 1_700_000_000_000
WINDOW_MS = 10_000
GROUPS = 10
COPY_TOPICS = ("copies-even", "copies-odd")
WINDOW_TOPIC = "windows"
TOTALS_TOPIC = "totals"
KEYS = 50
"""Of the table of totals."""
INPUT_TOPIC = "numbers"
SCHEMA = "n BIGINT, at BIGINT, amount BIGINT"


def record_of(number: int) -> bytes:
    """Return the value of a record: a millisecond of event time each."""
    return b'{"n":%d,"at":%d,"amount":%d}' % (number, BEGAN_MS + number, amount_of(number))


def closing_record(number: int) -> bytes:
    """Return a record so late that it closes every window; its own number is negative."""
    return json.dumps({"n": -number, "at": BEGAN_MS + 10**9 + number, "amount": 0}).encode()


def amount_of(number: int) -> int:
    """Return what is summed up."""
    return number * 7_919 % 1_000


@dataclass(frozen=True)
class Total:
    """What is known of one group in one window."""

    count: int
    amount: int


def expected_windows(records: int) -> dict[tuple[int, int], Total]:
    """Return the total of each (window start in milliseconds, group)."""
    counts: Counter[tuple[int, int]] = Counter()
    amounts: Counter[tuple[int, int]] = Counter()
    for number in range(records):
        at_ms = BEGAN_MS + number
        place = (at_ms - at_ms % WINDOW_MS, number % GROUPS)
        counts[place] += 1
        amounts[place] += amount_of(number)
    return {place: Total(count, amounts[place]) for place, count in counts.items()}


def expected_totals(records: int) -> dict[int, Total]:
    """Return the total of each key of the table."""
    counts: Counter[int] = Counter()
    amounts: Counter[int] = Counter()
    for number in range(records):
        counts[number % KEYS] += 1
        amounts[number % KEYS] += amount_of(number)
    return {key: Total(count, amounts[key]) for key, count in counts.items()}
