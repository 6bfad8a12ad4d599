"""The option `where`: conditions on topic, partition, offset and timestamp, applied before rows reach Spark.

    partition IN (0, 2) AND offset >= 1000 AND timestamp >= '2026-01-01T10:00Z'

Partitions and offsets that no matching record can have are not fetched; in a batch, neither are the records
before the first one of the time. Timestamps of a partition are in no order: an upper bound of time saves no
fetch. What is fetched is filtered exactly, in Arrow.

Why not Spark's own push-down (`DataSourceReader.pushFilters`)? Up to Spark 4.3 it stores the pruned plan in
an object that all queries of one DataFrame share, and so loses rows (decision 265).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ottla.spark.errors import WrongOption
from ottla.spark.source.planning import OffsetRange

TOPIC, PARTITION, OFFSET, TIMESTAMP = "topic", "partition", "offset", "timestamp"
IN, NOT_IN = "in", "not in"
SAME_AS = {"=": IN, "==": IN, "!=": NOT_IN, "<>": NOT_IN}
ORDERED: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": lambda found, value: found < value,
    "<=": lambda found, value: found <= value,
    ">": lambda found, value: found > value,
    ">=": lambda found, value: found >= value,
}
WHERE = "where"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOKEN = re.compile(r"\s*(-?\d+|'(?:[^']|'')*'|`?\w+`?|<=|>=|<>|!=|==|[=<>(),]|\S)")


@dataclass(frozen=True)
class Condition:
    """A column compared with one value, or with several (IN, NOT IN)."""

    column: str
    operator: str
    values: tuple[int | str, ...]

    def holds_for(self, found: int | str) -> bool:
        """Return whether one value of the column meets it."""
        if self.operator in (IN, NOT_IN):
            return (found in self.values) == (self.operator == IN)
        return bool(ORDERED[self.operator](found, self.values[0]))

    def mask(self, found: Any) -> Any:
        """Return which values of an array meet it."""
        if self.operator in (IN, NOT_IN):
            return np.isin(found, np.array(self.values, np.int64), invert=self.operator == NOT_IN)
        return ORDERED[self.operator](found, self.values[0])

    @property
    def first(self) -> int | None:
        """The least whole number that can meet it."""
        value = min(self.values)
        assert isinstance(value, int)
        return {">": value + 1, ">=": value, IN: value}.get(self.operator)

    @property
    def last(self) -> int | None:
        """The greatest whole number that can meet it."""
        value = max(self.values)
        assert isinstance(value, int)
        return {"<": value - 1, "<=": value, IN: value}.get(self.operator)


@dataclass(frozen=True)
class RecordFilter:
    """Conditions that a record must all meet."""

    conditions: tuple[Condition, ...] = ()

    @property
    def since_ms(self) -> int | None:
        """The time before which no record matches."""
        return max(_known(each.first for each in self._on(TIMESTAMP)), default=None)

    def narrow(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return the parts of ranges in which records can match."""
        first = max(_known(each.first for each in self._on(OFFSET)), default=0)
        last = min(_known(each.last for each in self._on(OFFSET)), default=None)
        return [_clip(each, first, last) for each in ranges if self._keeps(each)]

    def mask(self, offsets: Any, timestamps_ms: Any) -> Any | None:
        """Return which records match; None if all do, as far as offsets and times go."""
        found: Any | None = None
        for column, values in ((OFFSET, offsets), (TIMESTAMP, timestamps_ms)):
            for each in self._on(column):
                mask = each.mask(values)
                found = mask if found is None else found & mask
        return found

    def _keeps(self, where: OffsetRange) -> bool:
        return all(each.holds_for(where.topic) for each in self._on(TOPIC)) and all(
            each.holds_for(where.partition) for each in self._on(PARTITION)
        )

    def _on(self, column: str) -> list[Condition]:
        return [each for each in self.conditions if each.column == column]


ALL_RECORDS = RecordFilter()


def _known(values: Iterable[int | None]) -> list[int]:
    return [each for each in values if each is not None]


def _clip(whole: OffsetRange, first: int, last: int | None) -> OffsetRange:
    start = max(whole.start, first)
    if last is None or last >= whole.end:
        return replace(whole, start=start)
    return replace(whole, start=start, end=max(last + 1, start), is_live=False)


def parse_where(text: str | None) -> RecordFilter:
    """Parse the option; raise WrongOption if it is something else than conditions joined by AND."""
    if text is None:
        return RecordFilter()
    parser = _Parser(_TOKEN.findall(text))
    found = parser.condition()
    while parser.is_more():
        parser.expect("AND")
        found += parser.condition()
    return RecordFilter(tuple(found))


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def is_more(self) -> bool:
        return self._next < len(self._tokens)

    def condition(self) -> list[Condition]:
        """Return a condition; BETWEEN is two."""
        column = self._take().strip("`").lower()
        if column not in (TOPIC, PARTITION, OFFSET, TIMESTAMP):
            raise _wrong(f"{column!r} is not topic, partition, offset or timestamp")
        operator = self._take().upper()
        if operator in ("IN", "NOT"):
            if operator == "NOT":
                self.expect("IN")
            return [Condition(column, NOT_IN if operator == "NOT" else IN, self._list(column))]
        if operator == "BETWEEN":
            low = self._value(column)
            self.expect("AND")
            return [Condition(column, ">=", (low,)), Condition(column, "<=", (self._value(column),))]
        if operator in SAME_AS:
            return [Condition(column, SAME_AS[operator], (self._value(column),))]
        if operator not in ORDERED or column == TOPIC:
            raise _wrong(f"cannot compare {column} with {operator}")
        return [Condition(column, operator, (self._value(column),))]

    def expect(self, word: str) -> None:
        found = self._take()
        if found.upper() != word:
            raise _wrong(f"has {found!r} where {word} must be")

    def _list(self, column: str) -> tuple[int | str, ...]:
        self.expect("(")
        values = [self._value(column)]
        while (separator := self._take()) == ",":
            values.append(self._value(column))
        if separator != ")":
            raise _wrong(f"has {separator!r} where ) must be")
        return tuple(values)

    def _value(self, column: str) -> int | str:
        token = self._take()
        if column == TIMESTAMP and token.upper() == "TIMESTAMP":
            token = self._take()
        is_text = token.startswith("'") and len(token) > 1
        text = token[1:-1].replace("''", "'")
        if column == TOPIC and is_text:
            return text
        if column == TIMESTAMP and is_text:
            return _time_ms(text)
        if column != TOPIC and re.fullmatch(r"-?\d{1,18}", token):
            return int(token)
        expected = {TOPIC: "a text in '", TIMESTAMP: "a time in ', or ms"}.get(column, "a whole number")
        raise _wrong(f"compares {column} with {token}, which is not {expected}")

    def _take(self) -> str:
        if not self.is_more():
            raise _wrong("ends too early")
        self._next += 1
        return self._tokens[self._next - 1]


def _time_ms(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise _wrong(f"'{text}' is not a time such as 2026-01-01T10:00Z") from None
    if time.tzinfo is None:
        raise _wrong(f"'{text}' names no time zone: write 2026-01-01T10:00Z, or +01:00")
    if time.microsecond % 1000:
        raise _wrong(f"'{text}' is finer than a millisecond")
    since = time - EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def _wrong(reason: str) -> WrongOption:
    return WrongOption(
        WHERE, f"{reason}. It takes conditions on topic, partition, offset and timestamp, joined by AND"
    )
