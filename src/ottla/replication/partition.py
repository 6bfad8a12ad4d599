"""One partition that this broker leads: appends, commits and reads.

What is committed is below the `high_watermark`; consumers see nothing above it. With one replica
an append is committed as soon as it is in the log. With `flush.messages=1` it is committed only once
it is on the disk, so that nobody ever reads a record that a power cut could take back; appends that
arrive while a flush runs share the next one (group commit).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.log.flusher import Flusher
from ottla.log.log import Log
from ottla.log.log_types import Appended, LogRead
from ottla.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.protocol.record_batch import BatchHeader

if TYPE_CHECKING:
    from ottla.replication.purgatory import Watcher


class Partition:
    """The leader's view of one partition."""

    def __init__(
        self,
        log: Log,
        topic_id: UUID,
        leader_epoch: int,
        flusher: Flusher,
        clock: Clock,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.high_watermark = log.log_end_offset
        self.watchers: dict[Watcher, None] = {}
        self._flusher = flusher
        self._clock = clock
        self._tasks = tasks
        self._flushing = False
        self._unflushed_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._closed = False
        if log.config.flush_messages == 1 and log.recovery_point < log.log_end_offset:
            # What a crash left unflushed counts once it is on the disk, like any other append.
            self.high_watermark = max(log.recovery_point, log.log_start_offset)
            self._unflushed_bytes = log.size_bytes
            self._start_flush()

    @property
    def log_start_offset(self) -> int:
        """Return the first offset that can be read."""
        return self.log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which no transaction is open."""
        return self.high_watermark

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client whose view of the leadership is older or newer than ours."""
        if epoch < 0 or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"{epoch} < {self.leader_epoch}")
        raise UnknownLeaderEpoch(f"{epoch} > {self.leader_epoch}")

    def append(self, batch: memoryview, header: BatchHeader, is_inspected: bool = False) -> Appended:
        """Append one checked batch; see `committed` for when it counts."""
        log = self.log
        appended = log.append(batch, header, self.leader_epoch, self._clock.wall_ms(), is_inspected)
        if log.config.flush_messages == 1:
            self._unflushed_bytes += 0 if appended.is_duplicate else len(batch)
            if self.high_watermark < log.log_end_offset:
                self._start_flush()
        elif not appended.is_duplicate:
            self._advance(log.log_end_offset, len(batch))
            if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
                self._start_flush()
        return appended

    def committed(self, offset: int) -> asyncio.Future[None] | None:
        """Return None if all below `offset` is committed, else a future for when it is."""
        if offset <= self.high_watermark:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        return future

    def read(self, offset: int, max_bytes: int, end_offset: int, at_least_one: bool) -> LogRead:
        """Return the records from `offset` on, up to `end_offset` and about `max_bytes`."""
        return self.log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 if there is none."""
        return self.log.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch`, and where it ends; -1 for unknown."""
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Return where the log parted from a reader's: the largest epoch in common, and its end.

        None if the reader, whose last record had `last_fetched_epoch`, can go on at `fetch_offset`.
        """
        epoch, end_offset = self.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise OffsetOutOfRange(f"nothing is known of leader epoch {last_fetched_epoch}")
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def delete_records(self, offset: int) -> int:
        """Move the log start to `offset` (-1: to the high watermark) and return it."""
        target = self.high_watermark if offset == -1 else offset
        if target > self.high_watermark or target < 0:
            raise OffsetOutOfRange(f"{target} is above the high watermark {self.high_watermark}")
        low_watermark = self.log.delete_records_before(target)
        self._wake_watchers()
        return low_watermark

    def close(self) -> None:
        """Let go of everyone who waits: the partition is gone from this broker."""
        self._closed = True
        self._fail(UnknownTopicOrPartition(str(self.topic_partition)))
        self._wake_watchers()

    def _advance(self, high_watermark: int, grown_bytes: int) -> None:
        self.high_watermark = high_watermark
        if self.watchers:
            for watcher in list(self.watchers):
                watcher.grown(grown_bytes)
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _start_flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            task = asyncio.get_running_loop().create_task(self._flush())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _flush(self) -> None:
        """Flush until what was appended in the meantime is flushed too."""
        try:
            while not self._closed:
                target, grown_bytes = self.log.log_end_offset, self._unflushed_bytes
                await self._flusher.flushed(self.log, target)
                self._unflushed_bytes -= grown_bytes
                if self.high_watermark < target:
                    self._advance(target, grown_bytes)
                if self.high_watermark >= self.log.log_end_offset:
                    break
        except KafkaError as error:
            self._fail(error)
        finally:
            self._flushing = False

    def _fail(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)

    def _wake_watchers(self) -> None:
        for watcher in list(self.watchers):
            watcher.wake()
