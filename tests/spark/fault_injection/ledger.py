"""What the pipeline has written, as an unrelated client sees it, against what must be there."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from tests.spark.fault_injection.numbers import (
    COPY_TOPICS,
    TOTALS_TOPIC,
    WINDOW_TOPIC,
    Total,
    expected_totals,
    expected_windows,
    record_of,
)

from ottla.client import Admin

ENDED_STATES = {"Empty", "CompleteCommit", "CompleteAbort"}
DEADLINE_S = 60.0
TIMEOUT_S = 0.5
"""How long the client may gather records that it hands over at once."""


@dataclass(frozen=True)
class Verdict:
    """What was found. Only `is_exact` runs are exactly once."""

    records: int
    lost: int
    duplicated: int
    """Copies beyond the first."""
    wrong: int
    """Copies whose value is not that of the input, or that are in the other topic."""
    windows: int
    windows_lost: int
    windows_duplicated: int
    windows_wrong: int
    """Windows whose count or sum is not exact."""
    totals_wrong: int
    """Keys of the table of totals whose last row is not exact, or whose rows repeat or go back."""
    open_transactions: int

    @property
    def is_exact(self) -> bool:
        """Whether nothing is lost, doubled, wrong or left open."""
        faults = (self.lost, self.duplicated, self.wrong, self.totals_wrong, self.open_transactions)
        return not any((*faults, self.windows_lost, self.windows_duplicated, self.windows_wrong))


def verdict(bootstrap: str, records: int, *, with_totals: bool = True) -> Verdict:
    """Read all outputs and compare them."""
    copies = bytearray(records)
    wrong = duplicated = 0
    for parity, topic in enumerate(COPY_TOPICS):
        for message in committed(bootstrap, topic):
            number = int(message.key())
            if number < 0:  # a closing record
                continue
            wrong += number % 2 != parity or message.value() != record_of(number)
            duplicated += copies[number] > 0
            copies[number] = 1
    expected = expected_windows(records)
    times: Counter[tuple[int, int]] = Counter()
    windows_wrong = 0
    for message in committed(bootstrap, WINDOW_TOPIC):
        start, group = message.key().decode().split("/")
        place = int(start), int(group)
        times[place] += 1
        windows_wrong += expected.get(place) != Total(**json.loads(message.value()))
    return Verdict(
        records=records,
        lost=copies.count(0),
        duplicated=duplicated,
        wrong=wrong,
        windows=len(expected),
        windows_lost=len(expected.keys() - times.keys()),
        windows_duplicated=times.total() - len(times),
        windows_wrong=windows_wrong,
        totals_wrong=wrong_totals(bootstrap, records) if with_totals else 0,
        open_transactions=open_transactions(bootstrap),
    )


def wrong_totals(bootstrap: str, records: int) -> int:
    """Return how many keys of the table are wrong; every row of a key must count more than the last."""
    last: dict[int, Total] = {}
    wrong: set[int] = set()
    for message in committed(bootstrap, TOTALS_TOPIC):
        row = json.loads(message.value())
        key, total = int(message.key()), Total(row["count"], row["amount"])
        if key in last and total.count <= last[key].count:
            wrong.add(key)
        last[key] = total
    expected = expected_totals(records)
    return len(wrong | {key for key in expected.keys() | last.keys() if expected.get(key) != last.get(key)})


def committed(bootstrap: str, topic: str) -> Iterator[Any]:
    """Yield every committed record of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ledger",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, DEADLINE_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    unread = set(partitions)
    deadline = time.monotonic() + DEADLINE_S
    try:
        while unread:
            messages = consumer.consume(10_000, TIMEOUT_S)
            if messages:
                deadline = time.monotonic() + DEADLINE_S
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: nothing for {DEADLINE_S:g} s; {unread} have not ended")
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif error.fatal():
                    raise RuntimeError(f"{topic}: {error}")
    finally:
        consumer.close()


def open_transactions(bootstrap: str) -> int:
    """Return how many transactions have begun and not ended, prepared ones included."""
    with Admin(bootstrap) as admin:
        return sum(each.state not in ENDED_STATES for each in admin.list_transactions())
