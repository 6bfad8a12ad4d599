"""What clients did and saw, in the order in which they did: the evidence that checker.py judges.

A record is known by its value, so every value is sent once only. A send that was neither acknowledged nor
failed for certain has an unknown outcome: its records may or may not be in the log.

    history = History(now)
    number = history.sent("p1", place, [b"p1-0"])
    history.acked(number, base_offset=7)
    history.polled("c1", place, position=0, records=[(0, b"...")], high_watermark=8)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.common.ids import TopicPartition
from ottla.protocol.records.records import Record

Read = tuple[int, bytes]
"""An offset and the value there."""


class Sent(NamedTuple):
    """A producer sent records to one partition; `number` names this send in what follows."""

    at_s: float
    number: int
    producer: str
    place: TopicPartition
    values: tuple[bytes, ...]
    is_idempotent: bool
    """So that each value is in the log once at most, in the order of the sends."""
    is_safe: bool
    """With acks=all: what is acknowledged may never be lost."""


class Acked(NamedTuple):
    """A send was acknowledged; the base offset is -1 if the broker did not say."""

    at_s: float
    number: int
    base_offset: int


class Failed(NamedTuple):
    """A producer gave up. `is_certain` if every answer said that nothing was appended."""

    at_s: float
    number: int
    is_certain: bool


class ReaderPositioned(NamedTuple):
    """A reader starts, or continues from another position."""

    at_s: float
    reader: str
    place: TopicPartition
    position: int


class Polled(NamedTuple):
    """A reader asked for records from its position on, and got these."""

    at_s: float
    reader: str
    place: TopicPartition
    position: int
    records: tuple[Read, ...]
    high_watermark: int
    leader_epoch: int


class ReaderStopped(NamedTuple):
    """A reader reads no more; it need not have seen everything."""

    at_s: float
    reader: str
    place: TopicPartition


class Committing(NamedTuple):
    """A member of a group commits the position that it will resume from."""

    at_s: float
    number: int
    group: str
    generation: int
    place: TopicPartition
    offset: int


class Committed(NamedTuple):
    """The coordinator confirmed it."""

    at_s: float
    number: int


class CommitRead(NamedTuple):
    """A member of a group has fetched its committed offset, requested after `since` events."""

    at_s: float
    group: str
    place: TopicPartition
    offset: int
    since: int


def value_of(record: Record) -> bytes:
    """Return what the history calls a record: its value, or the id in the header of a tombstone."""
    return record.headers[0][1] or b"" if record.headers else record.value or b""


ReaderEvent = ReaderPositioned | Polled | ReaderStopped
Event = Sent | Acked | Failed | ReaderEvent | Committing | Committed | CommitRead


class History:
    """Records events; `now` is where their time comes from."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.events: list[Event] = []
        self._now = now
        self._sends = 0
        self._commits = 0

    def sent(
        self,
        producer: str,
        place: TopicPartition,
        values: Sequence[bytes],
        *,
        is_idempotent: bool = True,
        is_safe: bool = True,
    ) -> int:
        """Note a send, before it leaves; return its number."""
        number, self._sends = self._sends, self._sends + 1
        self.events.append(Sent(self._now(), number, producer, place, tuple(values), is_idempotent, is_safe))
        return number

    def acked(self, number: int, base_offset: int) -> None:
        """Note an acknowledgement."""
        self.events.append(Acked(self._now(), number, base_offset))

    def failed(self, number: int, *, is_certain: bool) -> None:
        """Note that a send was given up."""
        self.events.append(Failed(self._now(), number, is_certain))

    def sought(self, reader: str, place: TopicPartition, position: int) -> None:
        """Record the position that a reader continues from."""
        self.events.append(ReaderPositioned(self._now(), reader, place, position))

    def polled(
        self,
        reader: str,
        place: TopicPartition,
        position: int,
        records: Sequence[Read],
        high_watermark: int,
        leader_epoch: int = -1,
    ) -> None:
        """Note what a reader got."""
        self.events.append(
            Polled(self._now(), reader, place, position, tuple(records), high_watermark, leader_epoch)
        )

    def left(self, reader: str, place: TopicPartition) -> None:
        """Note that a reader stopped."""
        self.events.append(ReaderStopped(self._now(), reader, place))

    def committing(self, group: str, generation: int, place: TopicPartition, offset: int) -> int:
        """Note that an offset is about to be committed; return the commit's number."""
        number, self._commits = self._commits, self._commits + 1
        self.events.append(Committing(self._now(), number, group, generation, place, offset))
        return number

    def committed(self, number: int) -> None:
        """Note that a commit was confirmed."""
        self.events.append(Committed(self._now(), number))

    def commit_read(self, group: str, place: TopicPartition, offset: int, since: int) -> None:
        """Note what a coordinator said is committed, when asked after `since` events; 0 if it is nothing."""
        self.events.append(CommitRead(self._now(), group, place, offset, since))
