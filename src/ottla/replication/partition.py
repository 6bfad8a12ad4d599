"""One partition of which this broker has a replica: appends, commits and reads.

Records below the `high_watermark` are committed; consumers see nothing above it. With one replica an append
is committed as soon as it is in the log. With `flush.messages=1` it is committed only once it is on disk, so
that no consumer reads a record that a power failure could take back; appends that arrive during a flush share
the next one (group commit).

With several replicas the leader commits what all in-sync replicas have: see leader.py. A follower copies
(follower.py) and learns from its leader what is committed.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.log.directories.flusher import Flusher
from ottla.log.log import Log
from ottla.log.log_types import AppendResult, LogRead
from ottla.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.control import MARKER_BYTES, Marker
from ottla.replication.backlog import UncommittedAppends
from ottla.replication.counters import PartitionEvents, TopicTraffic
from ottla.replication.leader_epochs import EpochEnd, diverges

if TYPE_CHECKING:
    from ottla.replication.leader import LeaderState
    from ottla.replication.purgatory import Watcher


class LogEnd:
    """The end of a log, which followers watch; consumers watch the partition's high watermark."""

    __slots__ = ("_grown_bytes", "watchers")

    def __init__(self) -> None:
        self.watchers: dict[Watcher, int | None] = {}
        self._grown_bytes = 0

    @property
    def last_stable_offset(self) -> int:
        """Return a maximum: followers also copy open transactions."""
        return sys.maxsize

    def on_growth(self, size_bytes: int) -> None:
        """Notify the watchers, once for everything that is appended in this iteration of the loop."""
        if not self._grown_bytes:
            asyncio.get_running_loop().call_soon(self._notify)
        self._grown_bytes += size_bytes

    def _notify(self) -> None:
        size_bytes, self._grown_bytes = self._grown_bytes, 0
        for watcher in list(self.watchers):
            watcher.on_growth(size_bytes)


class Partition:
    """One partition. It is led here unless a `high_watermark` is given, which then is its committed
    offset.
    """

    def __init__(
        self,
        log: Log,
        topic_id: UUID,
        leader_epoch: int,
        flusher: Flusher,
        clock: Clock,
        tasks: set[asyncio.Task[None]],
        high_watermark: int | None = None,
    ) -> None:
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.high_watermark = log.log_end_offset
        self.epoch_start_offset = log.log_end_offset
        """Where this leader's epoch begins; until that is committed, the last leader may have committed
        more.
        """
        self.watchers: dict[Watcher, int | None] = {}
        """With the last stable offset known to watchers that wait for committed transactions."""
        self._flusher = flusher
        self._clock = clock
        self._tasks = tasks
        self._flushing = False
        self._unflushed_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._closed = False
        self.is_leader = high_watermark is None
        self.leader_state: LeaderState | None = None
        """The leader's view of its followers, if there are any."""
        self.log_end = LogEnd()
        self.min_insync_replicas = 1
        self.traffic = TopicTraffic()
        """The counters of its topic, shared by all partitions of the topic."""
        self.events = PartitionEvents()
        """The counters of this broker, shared by all its partitions."""
        self.throttled_as_leader = self.throttled_as_follower = False
        """Whether the replication of this replica is throttled while it is not in sync; see throttle.py."""
        self._uncommitted = UncommittedAppends()
        if high_watermark is not None:
            self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        elif log.config.flush_messages == 1 and log.recovery_point < log.log_end_offset:
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
        """Return the offset below which every transaction has ended: the end for read_committed."""
        high_watermark = self.high_watermark
        transactions = self.log.producers.transactions
        first = transactions.first_unstable_offset(high_watermark) if transactions else None
        if first is None or first >= high_watermark:
            return high_watermark
        return max(first, self.log.log_start_offset)

    @property
    def is_high_watermark_valid(self) -> bool:
        """Return whether everything is committed that the previous leader may have reported as committed."""
        return self.high_watermark >= self.epoch_start_offset

    def check_leader_epoch(self, epoch: int) -> None:
        """Reject a client whose leader epoch is older or newer than ours."""
        if epoch < 0 or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"{epoch} < {self.leader_epoch}")
        raise UnknownLeaderEpoch(f"{epoch} > {self.leader_epoch}")

    def append(self, batch: memoryview, header: BatchHeader, is_validated: bool = False) -> AppendResult:
        """Append one validated batch; `when_committed` is called when it is committed."""
        if not self.is_leader:
            raise NotLeaderOrFollower(f"{self.topic_partition} is led elsewhere")
        log = self.log
        size_bytes = len(batch)
        appended = log.append(batch, header, self.leader_epoch, self._clock.wall_ms(), is_validated)
        traffic = self.traffic
        traffic.appends += 1
        if not appended.is_duplicate:
            traffic.records_in += header.record_count
            traffic.bytes_in += size_bytes
        self._appended(log, appended, size_bytes)
        return appended

    def append_marker(self, marker: Marker) -> AppendResult:
        """Append a transaction marker; `when_committed` is called when it is committed."""
        if not self.is_leader:
            raise NotLeaderOrFollower(f"{self.topic_partition} is led elsewhere")
        log = self.log
        log.producers.transactions.forget_committed(self.high_watermark)
        appended = log.append_marker(marker, self.leader_epoch, self._clock.wall_ms())
        self._appended(log, appended, MARKER_BYTES)
        return appended

    def _appended(self, log: Log, appended: AppendResult, size_bytes: int) -> None:
        if self.leader_state is not None:
            self._appended_for_followers(self.leader_state, appended, size_bytes)
        elif log.config.flush_messages == 1:
            self._unflushed_bytes += 0 if appended.is_duplicate else size_bytes
            if self.high_watermark < log.log_end_offset:
                self._start_flush()
        elif not appended.is_duplicate:
            self._advance(log.log_end_offset, size_bytes)
            if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
                self._start_flush()

    @property
    def commits_immediately(self) -> bool:
        """Return whether an append is committed when it returns: without followers, and without a flush."""
        return self.is_leader and self.leader_state is None and self.log.config.flush_messages != 1

    def check_in_sync(self) -> None:
        """Reject a produce request with acks=all while too few replicas are in sync."""
        if self.leader_state is not None:
            self.leader_state.check_in_sync()

    def when_durable(self, offset: int) -> asyncio.Future[None] | None:
        """Return None if everything below `offset` is as durable here as the topic asks, else a future for
        that.
        """
        if self.leader_state is None:
            return self.when_committed(offset)
        if self.log.config.flush_messages != 1 or offset <= self.log.recovery_point:
            return None
        return self._spawn(self._flusher.flush_up_to(self.log, offset))

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        """Return None if everything below `offset` is committed, else a future for that."""
        if offset <= self.high_watermark:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        return future

    def read(self, offset: int, max_bytes: int, end_offset: int, at_least_one: bool) -> LogRead:
        """Return the records from `offset` on, up to `end_offset` and about `max_bytes`."""
        return self.log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)

    def aborted_transactions_in(self, offset: int, found: LogRead) -> Sequence[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions in what was read from `offset`."""
        if not found.records:
            return ()
        aborted = self.log.aborted_transactions(offset, found.next_offset)
        return [(each.producer_id, each.first_offset) for each in aborted]

    def epoch_for_offset(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 if there is none."""
        return self.log.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch`, and its end offset; -1 if it is unknown."""
        if epoch == self.leader_epoch:
            return epoch, self.log.log_end_offset
        latest = self.log.epochs.latest_epoch
        if latest < epoch < self.leader_epoch:
            # A leader that has written nothing yet: whatever its predecessors wrote ends where it begins.
            return (epoch if latest < 0 else latest), self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Return where the log diverges from a reader's: the largest common epoch and its end offset.

        None if the reader, whose last record had `last_fetched_epoch`, can continue at `fetch_offset`.
        """
        epoch, end_offset = self.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise OffsetOutOfRange(f"nothing is known of leader epoch {last_fetched_epoch}")
        found = EpochEnd(epoch, end_offset)
        return found if diverges(last_fetched_epoch, fetch_offset, found) else None

    def delete_records(self, offset: int) -> int:
        """Advance the log start to `offset` (-1: to the high watermark) and return it."""
        target = self.high_watermark if offset == -1 else offset
        if target > self.high_watermark or target < 0:
            raise OffsetOutOfRange(f"{target} is above the high watermark {self.high_watermark}")
        low_watermark = self.log.delete_records_before(target)
        self._wake_watchers()
        return low_watermark

    # Roles

    def lead(self, leader_epoch: int, replication: LeaderState | None) -> None:
        """Lead in a new epoch, or with other replicas; `replication` is None without followers."""
        if not self.is_leader or leader_epoch > self.leader_epoch:
            self.epoch_start_offset = self.log.log_end_offset
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self._replace_replication(replication)
        if replication is not None:
            replication.advance_high_watermark()
        elif self.log.config.flush_messages == 1 and self.log.recovery_point < self.log.log_end_offset:
            self._start_flush()
        else:
            self.commit(self.log.log_end_offset)

    def follow(self, leader_epoch: int) -> None:
        """Stop leading: waiting producers and readers must find the new leader."""
        was_leader, self.is_leader = self.is_leader, False
        self.leader_epoch = leader_epoch
        self._replace_replication(None)
        if was_leader:
            self._fail(NotLeaderOrFollower(f"{self.topic_partition} is led elsewhere"))
        self._wake_watchers()

    def _replace_replication(self, replication: LeaderState | None) -> None:
        if self.leader_state is not None:
            self.leader_state.close()
        self.leader_state = replication

    def commit(self, high_watermark: int) -> None:
        """Commit everything below `high_watermark`."""
        size_bytes = self._uncommitted.commit(high_watermark)
        if self.leader_state is not None:
            self.leader_state.acks_all_backlog.commit(high_watermark)
            self.leader_state.total_backlog.commit(high_watermark)
        if high_watermark > self.high_watermark:
            self._advance(high_watermark, max(1, size_bytes))
            transactions = self.log.producers.transactions
            if transactions:
                transactions.forget_committed(high_watermark)

    def add_replicated(self, size_bytes: int) -> None:
        """Count bytes that were appended as a follower."""
        self._uncommitted.add(self.log.log_end_offset, size_bytes)
        self.traffic.replicated_bytes_in += size_bytes

    def on_truncated(self) -> None:
        """Lower the high watermark to the end of a truncated log."""
        self._uncommitted.clear()
        self.high_watermark = max(
            min(self.high_watermark, self.log.log_end_offset), self.log.log_start_offset
        )

    def close(self) -> None:
        """Fail all waiting requests: this broker no longer has the partition."""
        self._closed = True
        self.is_leader = False
        self._replace_replication(None)
        self._fail(UnknownTopicOrPartition(str(self.topic_partition)))
        self._wake_watchers()

    def _advance(self, high_watermark: int, grown_bytes: int) -> None:
        before, self.high_watermark = self.high_watermark, high_watermark
        if self.watchers:
            self._notify_watchers(before, grown_bytes)
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _notify_watchers(self, before: int, grown_bytes: int) -> None:
        """Notify watchers that `grown_bytes` more are committed; some wait for stable offsets only."""
        stable = -1
        for watcher, known in list(self.watchers.items()):
            if known is None:
                watcher.on_growth(grown_bytes)
                continue
            stable = self.last_stable_offset if stable < 0 else stable
            if known >= before and stable == self.high_watermark:
                self.watchers[watcher] = stable
                watcher.on_growth(grown_bytes)
            elif stable > known:
                watcher.wake()  # a transaction has ended: how much can be read now only a read can tell

    def _appended_for_followers(
        self, replication: LeaderState, appended: AppendResult, size_bytes: int
    ) -> None:
        if appended.is_duplicate:
            return
        log = self.log
        self._uncommitted.add(log.log_end_offset, size_bytes)
        replication.total_backlog.add(log.log_end_offset, size_bytes)
        if self.log_end.watchers:
            self.log_end.on_growth(size_bytes)
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            self._start_flush()
        if replication.is_only_in_sync:
            replication.advance_high_watermark()

    def _start_flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._spawn(self._flush())

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _flush(self) -> None:
        """Flush until everything that was appended in the meantime is flushed too."""
        try:
            while not self._closed:
                target, grown_bytes = self.log.log_end_offset, self._unflushed_bytes
                await self._flusher.flush_up_to(self.log, target)
                self._unflushed_bytes -= grown_bytes
                if not self.is_leader:
                    break
                if self.leader_state is not None:
                    self.leader_state.advance_high_watermark()
                elif self.high_watermark < target:
                    self._advance(target, grown_bytes)
                if self.log.log_end_offset - self.log.recovery_point < self.log.config.flush_messages:
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
        for watcher in [*self.watchers, *self.log_end.watchers]:
            watcher.wake()
