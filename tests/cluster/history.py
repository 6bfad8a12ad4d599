"""The records that producers sent, their acknowledgements, and a checker that compares them with a reader's.

Every record carries in its value who sent it, where to, and its number; the rest of the value
follows from that. So a value alone shows whether it was ever sent, and whether it is complete.

The checker reads on where it stopped, round after round, and reports in words:

    lost           an acknowledged record is not there
    moved          another record is at the acknowledged offset
    phantom        a record that no producer sent, or with other bytes than were sent
    duplicate      twice from an idempotent producer
    disorder       one that comes before an earlier one of the same producer
    gap            an offset that is missing
    old offset     an acknowledgement of an offset that was known before the record was sent
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

Place = tuple[str, int]
Read = tuple[int, bytes | None]
"""An offset and the value there."""

_FILLER = random.Random(1).randbytes(40_000)
_SIZES = (0, 1, 20, 40, 80, 100, 150, 200, 250, 300, 400, 900, 2_500, 9_000)


@dataclass
class Stream:
    """The records of one producer to one partition, numbered from 0."""

    producer: str
    place: Place
    exactly_once: bool
    sent: int = 0
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        topic, partition = self.place
        self.head = f"{self.producer}/{topic}/{partition}/".encode()

    def value(self, number: int) -> bytes:
        """Return the value of record `number`."""
        head = b"%b%d|" % (self.head, number)
        start = crc32(head)
        return head + _FILLER[start % 30_000 :][: _SIZES[start % len(_SIZES)]]

    def number_of(self, value: bytes) -> int | None:
        """Return the number of the record with this value, None if it was never sent."""
        digits = value[len(self.head) : value.find(b"|", len(self.head))]
        if not digits.isdigit() or int(digits) >= self.sent or self.value(int(digits)) != value:
            return None
        return int(digits)


class History:
    """All that was sent, and all that was acknowledged."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self._by_head: dict[bytes, int] = {}
        self._acks: dict[Place, array[int]] = {}
        self.implied: list[tuple[int, int]] = []
        """Every (stream, number) that was acknowledged only with a later record, without its offset."""

    def stream(self, producer: str, place: Place, *, exactly_once: bool) -> int:
        """Begin a stream and return its number."""
        stream = Stream(producer, place, exactly_once)
        self._by_head[stream.head] = len(self.streams)
        self.streams.append(stream)
        self._acks.setdefault(place, array("q"))
        return len(self.streams) - 1

    def next_value(self, stream: int) -> tuple[int, bytes]:
        """Return the number and the value of the stream's next record, which counts as sent from now on."""
        of = self.streams[stream]
        number = of.sent
        of.sent += 1
        return number, of.value(number)

    def acknowledge(self, stream: int, number: int, offset: int | None) -> None:
        """Note the acknowledgement of record `number` at `offset` (None: without an offset)."""
        if offset is None:
            self.implied.append((stream, number))
            return
        self._acks[self.streams[stream].place].extend((offset, stream, number))

    def acknowledged(self, place: Place) -> array[int]:
        """Return every (offset, stream, number), flat, in the order of arrival."""
        return self._acks[place]

    @property
    def places(self) -> list[Place]:
        """Every partition that something was sent to."""
        return list(self._acks)

    @property
    def ack_count(self) -> int:
        """How many records were acknowledged."""
        return sum(len(acks) for acks in self._acks.values()) // 3

    def identify(self, value: bytes | None) -> tuple[int, int] | None:
        """Return the stream and the number of a value; None for one that was never sent."""
        if value is None:
            return None
        stream = self._by_head.get(value[: value.rfind(b"/", 0, value.find(b"|")) + 1])
        if stream is None:
            return None
        number = self.streams[stream].number_of(value)
        return None if number is None else (stream, number)


class Checker:
    """Holds what is read, partition by partition, against a history; see the list at the top."""

    def __init__(self, history: History) -> None:
        self.positions: dict[Place, int] = dict.fromkeys(history.places, 0)
        """Where to read on."""
        self._history = history
        self._seen = [0] * len(history.streams)
        self._checked = dict.fromkeys(history.places, 0)

    def check(self, place: Place, records: Sequence[Read]) -> list[str]:
        """Return what is wrong with all that there is from the place's position on; no more than a few."""
        problems: list[str] = []
        found: dict[int, tuple[int, int]] = {}
        expected = start = self.positions[place]
        for offset, value in records:
            if offset != expected:
                problems.append(f"gap: {place} continues at offset {offset} instead of {expected}")
            expected = offset + 1
            origin = self._history.identify(value)
            if origin is None or self._history.streams[origin[0]].place != place:
                problems.append(f"phantom: {place} has {value!r:.80} at offset {offset}")
                continue
            found[offset] = origin
            problems += self._check_order(offset, *origin)
        self.positions[place] = expected
        problems += self._check_acks(place, start, found)
        return problems[:20]

    def check_implied(self) -> list[str]:
        """Return which records are missing that were acknowledged without an offset; after all is read."""
        return [
            f"lost: record {number} of {self._history.streams[stream]}, acknowledged with a later one"
            for stream, number in self._history.implied
            if number >= self._seen[stream]
        ][:20]

    def _check_order(self, offset: int, stream: int, number: int) -> Iterable[str]:
        of, next_number = self._history.streams[stream], self._seen[stream]
        what = f"{of.producer}'s record {number} at offset {offset} of {of.place}"
        if number > next_number:
            yield f"disorder: {what} comes before record {next_number}"
        elif number < next_number and of.exactly_once:
            yield f"duplicate: {what} was there before"
        self._seen[stream] = max(next_number, number + 1)

    def _check_acks(self, place: Place, start: int, found: dict[int, tuple[int, int]]) -> Iterable[str]:
        acks = self._history.acknowledged(place)
        for at in range(self._checked[place], len(acks), 3):
            offset, stream, number = acks[at : at + 3]
            producer = self._history.streams[stream].producer
            what = f"{producer}'s record {number}, acknowledged at offset {offset} of {place}"
            there = found.get(offset)
            if offset < start:
                yield f"old offset: {what}, but the log had reached {start} before"
            elif there is None:
                yield f"lost: {what}"
            elif there != (stream, number):
                other = self._history.streams[there[0]].producer
                yield f"moved: {what}; record {there[1]} of {other} is there"
        self._checked[place] = len(acks)
