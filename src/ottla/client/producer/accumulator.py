"""Where records wait to be sent: a queue of batches per partition, in a buffer of bounded size.

Records are added by whoever sends them, in any thread; batches are taken by the lanes to the brokers, on
the producer's loop. A lock stands between the two. When the buffer is full, senders wait, first come,
first served, until batches are settled; they always are: no batch outlives its delivery timeout.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ottla.client.producer.batch import Batch, Callback, Delivery
from ottla.client.producer.partition_queue import PartitionQueue
from ottla.common.ids import TopicPartition
from ottla.protocol.records.record_encoder import NewRecord

Wake = Callable[[], bool]
"""Wakes somebody who waits for room; returns whether there still was anybody."""


class Accumulator:
    """The records that are not yet delivered."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        batch_bytes: int,
        linger_s: float,
        buffer_bytes: int,
        max_in_flight: int,
        is_idempotent: bool,
    ) -> None:
        self.buffered_bytes = 0
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.encodes_full = False
        """Whether a full batch is encoded by the thread that filled it, and not by the loop."""
        self.unsettled: dict[Batch, None] = {}
        """Every batch that somebody may wait for, oldest first."""
        self._active: dict[PartitionQueue, None] = {}
        self._batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._buffer_bytes = buffer_bytes
        self._max_in_flight = max_in_flight
        self._is_idempotent = is_idempotent
        self._now = now
        self._closed_by: Exception | None = None
        self._is_holding_back = False
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, Wake]] = deque()

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition; the first time, a new one."""
        with self._lock:
            queue = self.queues.get(partition)
            if queue is None:
                queue = self.queues[partition] = PartitionQueue(
                    partition, is_idempotent=self._is_idempotent, max_in_flight=self._max_in_flight
                )
                queue.held_after = 0 if self._is_holding_back else None
            return queue

    def append(
        self,
        queue: PartitionQueue,
        record: NewRecord,
        size_bytes: int,
        callback: Callback | None = None,
        has_waited: bool = False,
    ) -> Delivery | None:
        """Add a record; return its delivery, or None if there is no room.

        Who has waited for room goes before those who have not. The first record of a batch has place 0:
        then the sender has to be told.
        """
        self._lock.acquire()  # not `with`, which costs as much as the rest
        try:
            if self._closed_by is not None:
                raise self._closed_by
            used = self.buffered_bytes
            is_refused = used + size_bytes > self._buffer_bytes or (self._waiting and not has_waited)
            if is_refused and used:  # a record larger than the whole buffer gets it for itself
                return None
            self.buffered_bytes = used + size_bytes
            batch = queue.open
            if batch is None or batch.size_bytes + size_bytes > self._batch_bytes:
                if batch is not None and self.encodes_full:
                    batch.encode(0)
                batch = queue.begin_batch(self._now())
                self._active[queue] = None
                self.unsettled[batch] = None
            return batch.add(record, size_bytes, callback)
        finally:
            self._lock.release()

    def append_encoded(self, queue: PartitionQueue, encoded: bytearray, count: int) -> Batch:
        """Add a whole batch that is encoded already; whoever does that looks after the buffer himself."""
        with self._lock:
            if self._closed_by is not None:
                raise self._closed_by
            batch = queue.begin_batch(self._now())
            queue.open = None
            batch.encoded, batch.count, batch.size_bytes = encoded, count, len(encoded)
            batch.is_flushed = True
            self.buffered_bytes += batch.size_bytes
            self._active[queue] = None
            self.unsettled[batch] = None
            return batch

    def when_room(self, size_bytes: int, wake: Wake, has_waited: bool = False) -> None:
        """Call `wake` when there may be room for so many bytes; who has waited before is called first."""
        with self._lock:
            if has_waited:
                self._waiting.appendleft((size_bytes, wake))
            else:
                self._waiting.append((size_bytes, wake))
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Call those who wait for room, as many as there is room for."""
        promised_bytes = 0
        while True:
            with self._lock:
                used = self.buffered_bytes + promised_bytes
                if not self._waiting or (used and used + self._waiting[0][0] > self._buffer_bytes):
                    return
                size_bytes, wake = self._waiting.popleft()
            if wake():
                promised_bytes += size_bytes

    def take(
        self, leader: int, now: float, max_bytes: int, may_send: Callable[[TopicPartition], bool]
    ) -> tuple[list[Batch], float | None]:
        """Take what can be sent to a broker in one request: of each partition at most one batch.

        Return also when there may be more, as far as that is a question of time.
        """
        taken: list[Batch] = []
        next_at: float | None = None
        total_bytes = 0
        with self._lock:
            for queue in [each for each in self._active if each.leader == leader]:
                ready_at = queue.ready_at(now, self._linger_s)
                if ready_at is None or (ready_at <= now and queue.needs_identity()):
                    continue
                if ready_at > now:
                    next_at = ready_at if next_at is None else min(next_at, ready_at)
                    continue
                size_bytes = queue.unsent[0].size_bytes
                if not may_send(queue.partition):
                    continue
                if taken and total_bytes + size_bytes > max_bytes:
                    next_at = now
                    break
                taken.append(queue.take())
                total_bytes += size_bytes
                del self._active[queue]  # the others come first the next time
                if queue.unsent:
                    self._active[queue] = None
        return taken, next_at

    def waiting_for_identity(self, leader: int, now: float) -> list[PartitionQueue]:
        """Return the queues that could send something to a broker if they had a producer id."""
        with self._lock:
            return [
                queue
                for queue in self._active
                if queue.leader == leader
                and queue.needs_identity()
                and (ready_at := queue.ready_at(now, self._linger_s)) is not None
                and ready_at <= now
            ]

    def put_back(self, queue: PartitionQueue, *batches: Batch) -> None:
        """Let batches that were taken be sent again, each in its old place."""
        with self._lock:
            queue.put_back(*batches)
            self._active[queue] = None

    def settle(self, batch: Batch) -> None:
        """Forget a settled batch and give back its place in the buffer."""
        with self._lock:
            if batch not in self.unsettled:  # a part of one that was split
                return
            del self.unsettled[batch]
            self.buffered_bytes -= batch.size_bytes
        if self._waiting:
            self.wake_waiting()

    def expire(self, before: float) -> list[tuple[PartitionQueue, Batch]]:
        """Take out the batches that were begun before a time; those under way are left where they are."""
        expired = []
        with self._lock:
            for queue in self.queues.values():
                late = [each for each in queue.in_flight if each.created_at < before and not each.is_settled]
                expired += [(queue, each) for each in late]
                while queue.unsent and queue.unsent[0].created_at < before:
                    batch = queue.unsent.popleft()
                    if batch is queue.open:
                        queue.open = None
                    expired.append((queue, batch))
                if not queue.unsent:
                    self._active.pop(queue, None)
        return expired

    def drop_unsent(self, queue: PartitionQueue) -> list[Batch]:
        """Take out of a queue everything that is not under way."""
        with self._lock:
            dropped = list(queue.unsent)
            queue.unsent.clear()
            queue.open = None
            self._active.pop(queue, None)
        return dropped

    def seal(self) -> list[Batch]:
        """Let everything be sent without lingering; return what is not settled yet."""
        with self._lock:
            for queue in self._active:
                queue.seal()
            return list(self.unsettled)

    def hold_back(self) -> list[Batch]:
        """Let what is there be sent without lingering, and nothing that comes later; return what is there."""
        with self._lock:
            self._is_holding_back = True
            for queue in self.queues.values():
                queue.seal()
                queue.open = None
                queue.held_after = queue.last_order
            return list(self.unsettled)

    def hold_back_no_more(self) -> None:
        """Let everything be sent again."""
        with self._lock:
            self._is_holding_back = False
            for queue in self.queues.values():
                queue.held_after = None

    def close(self, error: Exception) -> list[Batch]:
        """Take no more records, with this error; return what is not settled."""
        with self._lock:
            self._closed_by = self._closed_by or error
            return list(self.unsettled)

    def has_any_for(self, leader: int) -> bool:
        """Return whether anything waits to be sent to a broker."""
        if not self._active:
            return False
        with self._lock:
            return any(queue.leader == leader for queue in self._active)

    def active(self) -> list[PartitionQueue]:
        """Return the queues that have something to send."""
        with self._lock:
            return list(self._active)
