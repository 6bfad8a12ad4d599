"""The records that wait to be sent: a queue of batches per partition, in a buffer of bounded size.

Records are added in any thread; batches are taken by the `BrokerSender`s, on the producer's loop. A lock
guards the queues. When the buffer is full, callers of `send` wait, first come, first served, until batches
are completed, at the latest by their delivery timeout.
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
"""Wakes a caller that waits for buffer space; returns False if it no longer waits."""


class Accumulator:
    """The records that are not delivered yet."""

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
        """The batches that are not completed, oldest first."""
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
        """Return the queue of a partition; create it if necessary."""
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
        """Add a record; return its delivery, or None if the buffer is full.

        Callers that have waited go before those that have not. The first record of a batch has place 0:
        then the sender must be woken.
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

    def is_full(self, size_bytes: int) -> bool:
        """Return whether so many bytes must wait for room."""
        used = self.buffered_bytes
        return bool(used) and (used + size_bytes > self._buffer_bytes or bool(self._waiting))

    def append_encoded(self, queue: PartitionQueue, encoded: bytearray, count: int) -> Batch:
        """Add an encoded batch, without counting it against the buffer."""
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
        """Call `wake` when there may be space for so many bytes; callers that waited before go first."""
        with self._lock:
            if has_waited:
                self._waiting.appendleft((size_bytes, wake))
            else:
                self._waiting.append((size_bytes, wake))
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Wake waiting callers, as many as there is space for."""
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
        """Take the batches of one request to a broker: at most one of each partition.

        Return also when the next batch becomes ready, if that depends on time only.
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
        """Return the queues of a broker that wait for a producer id."""
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
        """Put taken batches back, each in its old place."""
        with self._lock:
            queue.put_back(*batches)
            self._active[queue] = None

    def settle(self, batch: Batch) -> None:
        """Remove a completed batch and free its buffer space."""
        with self._lock:
            if batch not in self.unsettled:  # a part of one that was split
                return
            del self.unsettled[batch]
            self.buffered_bytes -= batch.size_bytes
        if self._waiting:
            self.wake_waiting()

    def expire(self, before: float) -> list[tuple[PartitionQueue, Batch]]:
        """Remove the batches that were started before a time, except those in flight."""
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
        """Remove all batches of a queue that are not in flight."""
        with self._lock:
            dropped = list(queue.unsent)
            queue.unsent.clear()
            queue.open = None
            self._active.pop(queue, None)
        return dropped

    def seal(self) -> list[Batch]:
        """Send everything without lingering; return the batches that are not completed."""
        with self._lock:
            for queue in self._active:
                queue.seal()
            return list(self.unsettled)

    def hold_back(self) -> list[Batch]:
        """Send the current batches without lingering, but no later ones; return them."""
        with self._lock:
            self._is_holding_back = True
            for queue in self.queues.values():
                queue.seal()
                queue.open = None
                queue.held_after = queue.last_order
            return list(self.unsettled)

    def hold_back_no_more(self) -> None:
        """Allow later batches to be sent again."""
        with self._lock:
            self._is_holding_back = False
            for queue in self.queues.values():
                queue.held_after = None

    def close(self, error: Exception) -> list[Batch]:
        """Reject further records with this error; return the batches that are not completed."""
        with self._lock:
            self._closed_by = self._closed_by or error
            return list(self.unsettled)

    def has_any_for(self, leader: int) -> bool:
        """Return whether batches wait for a broker."""
        if not self._active:
            return False
        with self._lock:
            return any(queue.leader == leader for queue in self._active)

    def active(self) -> list[PartitionQueue]:
        """Return the queues that have batches."""
        with self._lock:
            return list(self._active)
