"""How far groups are behind in partitions: for metrics.

`group_lag` is pure: committed offsets and partitions in, lags out. What a lag costs is one look at the
record that the group reads next. A group that stands still asks for the same record again and again, so
`RecordTimes` remembers a bounded number of them; a record's timestamp does not change.

A partition that has a replica on this broker is looked at there (`ReplicaToRead`). What is known of one
that has none is what its leader said a moment ago (`LatestOffsets`): metrics/remote_lag.py asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol
from uuid import UUID

from ottla.common.lag import CAUGHT_UP, Lag, first_unread, lag
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import FetchedOffsets
from ottla.protocol.errors import KafkaError
from ottla.replication.partition import Partition

MAX_CACHED_TIMES = 20_000


class PartitionLag(NamedTuple):
    """One partition of a group; without end and lag if they are not known here."""

    topic: str
    partition: int
    committed_offset: int
    end_offset: int | None = None
    lag: Lag | None = None


class Readable(Protocol):
    """What has to be known of a partition."""

    @property
    def start_offset(self) -> int:
        """Return the first offset that can be read."""
        ...

    @property
    def end_offset(self) -> int:
        """Return the offset after the last record that can be read."""
        ...

    def timestamp_from(self, offset: int) -> int | None:
        """Return the timestamp of the first record at or after `offset`; None if there is none."""
        ...


def group_lag(
    offsets: FetchedOffsets, find: Callable[[str, int], Readable | None], now_ms: int
) -> Iterator[PartitionLag]:
    """Yield how far behind each committed offset is, one partition at a time."""
    for topic, partitions in offsets:
        for index, kept in partitions:
            if not isinstance(kept, OffsetValue):
                continue
            partition = find(topic, index)
            if partition is None:
                yield PartitionLag(topic, index, kept.offset)
                continue
            end = partition.end_offset
            first = first_unread(kept.offset, partition.start_offset, end)
            behind = (
                CAUGHT_UP if first is None else lag(kept.offset, end, partition.timestamp_from(first), now_ms)
            )
            yield PartitionLag(topic, index, kept.offset, end, behind)


class LatestOffsets(NamedTuple):
    """A partition for a group that has read to some offset, at the moment at which its leader was asked.

    The group may have read on since. Then the time is that of a record which it has read already, and says
    how far it was behind at that moment.
    """

    start_offset: int
    end_offset: int
    first_unread_ms: int | None

    def timestamp_from(self, offset: int) -> int | None:
        """Return the time of the record that the group was to read next."""
        return self.first_unread_ms


class RecordTimes:
    """Timestamps of records by topic, partition and offset, as many as have room."""

    def __init__(self) -> None:
        self._times: dict[tuple[UUID, int, int], int] = {}

    def get(self, partition: Partition, offset: int) -> int | None:
        """Return the timestamp of the first record at or after `offset`, from the log if need be."""
        key = (partition.topic_id, partition.topic_partition.partition, offset)
        time = self._times.get(key)
        if time is None:
            time = partition.log.timestamp_from(offset, partition.high_watermark)
            if time is not None:
                if len(self._times) >= MAX_CACHED_TIMES:
                    self._times.clear()
                self._times[key] = time
        return time


class ReplicaToRead:
    """A partition that this broker leads or follows, as `group_lag` wants it."""

    def __init__(self, partition: Partition, times: RecordTimes) -> None:
        self._partition = partition
        self._times = times

    @property
    def start_offset(self) -> int:
        """Return the first offset that can be read."""
        return self._partition.log_start_offset

    @property
    def end_offset(self) -> int:
        """Return the high watermark."""
        return self._partition.high_watermark

    def timestamp_from(self, offset: int) -> int | None:
        """Return the timestamp of the first record at or after `offset`; None if it cannot be read."""
        try:
            return self._times.get(self._partition, offset)
        except KafkaError:
            return None
