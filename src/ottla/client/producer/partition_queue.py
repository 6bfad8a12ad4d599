"""Holds the batches of one partition: those that wait to be sent, and those in flight.

The rules that keep the order, and each record once:

- Batches are sent in the order of their records, and return to the same place in the queue for a
  retry. A retried batch is sent alone, with no other batch of its partition in flight.
- With idempotence, a batch is numbered when it first leaves. A number that is lost (a batch has failed for
  good) makes a gap, which the broker would refuse to step over. Then, when no batch is in flight, the
  partition begins a new epoch: what waits is numbered anew from 0, and a late copy of an old batch is
  refused for its old epoch. But a batch that may have been stored, because its answer was lost, is first
  sent again under its old number: only the broker knows, and a new number would store it twice.
- The broker checks numbers only of producers that it knows: of a stranger it takes any. So the first batch
  under a producer id goes alone, until it is stored: if it had to be sent again, those behind it would have
  been stored before it.
- Without idempotence only one batch is in flight at a time, which keeps the order.
- A batch that is not full waits while another one of its partition is in flight: so batches grow with
  the load, and a lone record still leaves at once.

Everything here is plain computation on the producer's loop, but for `begin_batch`, which any thread may
call with the accumulator's lock held.
"""

from __future__ import annotations

from collections import deque

from ottla.client.producer.batch import MAX_SEQUENCE, Batch, Identity
from ottla.common.ids import TopicPartition

NO_LEADER = -1
MAX_EPOCH = 2**15 - 1


class PartitionQueue:
    """The batches of one partition, waiting and in flight."""

    def __init__(self, partition: TopicPartition, *, is_idempotent: bool, max_in_flight: int) -> None:
        self.partition = partition
        self.leader = NO_LEADER
        """The broker to send to."""
        self.trouble: Exception | None = None
        """Why nothing can be sent now, for error messages."""
        self.unsent: deque[Batch] = deque()
        self.open: Batch | None = None
        """The last of them, while records may still be added to it."""
        self.in_flight: list[Batch] = []
        self.identity = Identity()
        self.next_sequence = 0
        self.has_gap = False
        self.is_known = False
        """Whether the broker has stored something under this producer id."""
        self.last_order = 0
        """The place of the batch that was begun last."""
        self.held_after: int | None = None
        """After which place batches are held back, if they are: they belong to the next transaction."""
        self._sent_to = NO_LEADER
        self._is_idempotent = is_idempotent
        self._max_in_flight = max_in_flight if is_idempotent else 1

    @property
    def is_idle(self) -> bool:
        """Whether no batch waits or is in flight."""
        return not self.unsent and not self.in_flight

    def begin_batch(self, now: float) -> Batch:
        """Start a batch; the one before accepts no more records."""
        batch = self.open = Batch(self.partition, now)
        self.last_order += 1
        batch.order = (self.last_order, 0)
        self.unsent.append(batch)
        return batch

    def ready_at(self, now: float, linger_s: float) -> float | None:
        """Return when the first batch may be sent; None if that does not depend on time only."""
        batch = self.unsent[0]
        if self.held_after is not None and batch.order[0] > self.held_after:
            return None
        if self.in_flight:
            if len(self.in_flight) >= self._max_in_flight or self._sent_to != self.leader:
                return None
            if batch.attempts or self.has_gap or self.in_flight[0].attempts > 1 or not self.is_known:
                return None
            if not batch.is_flushed and batch is self.open:
                return None
        if batch.attempts:
            return batch.retry_at
        if batch is not self.open or batch.is_flushed:
            return now
        return batch.created_at + linger_s

    def take(self) -> Batch:
        """Take the first batch to send it to the leader, with a sequence number if necessary."""
        batch = self.unsent.popleft()
        if batch is self.open:
            self.open = None
        if self._is_idempotent:
            self._number(batch)
        batch.attempts += 1
        self.in_flight.append(batch)
        self._sent_to = self.leader
        return batch

    def put_back(self, *batches: Batch) -> None:
        """Put a batch that was in flight, or its parts, back in its old place."""
        for batch in batches:
            at = 0
            while at < len(self.unsent) and self.unsent[at].order < batch.order:
                at += 1
            self.unsent.insert(at, batch)

    def lose(self, batch: Batch) -> None:
        """Drop a batch that has failed: its sequence numbers, if it has any, leave a gap."""
        if batch.base_sequence >= 0 and batch.identity == self.identity:
            self.has_gap = True

    def seal(self) -> None:
        """Close the open batch, and send it without lingering."""
        for batch in self.unsent:
            batch.is_flushed = True

    def start_over(self, identity: Identity) -> None:
        """Number the waiting batches from 0 with this identity."""
        self.is_known = self.is_known and identity.producer_id == self.identity.producer_id
        self.identity = identity
        self.next_sequence = 0
        self.has_gap = False
        for batch in self.unsent:
            if batch.base_sequence >= 0:
                batch.sign(identity, self.next_sequence)
                self.next_sequence = (self.next_sequence + batch.count) & MAX_SEQUENCE

    def needs_identity(self) -> bool:
        """Return whether a new producer id is needed before the next batch can be numbered."""
        if not self._is_idempotent or self.in_flight:
            return False
        if self.identity.producer_id < 0:
            return True
        return self._may_start_over() and self.identity.producer_epoch >= MAX_EPOCH

    def _may_start_over(self) -> bool:
        return self.has_gap and not self.in_flight and not self.unsent[0].may_be_stored

    def _number(self, batch: Batch) -> None:
        if self.has_gap and not self.in_flight and not batch.may_be_stored:
            self.unsent.appendleft(batch)
            producer_id, epoch = self.identity
            self.start_over(Identity(producer_id, epoch + 1))
            self.unsent.popleft()
        if batch.base_sequence < 0:
            batch.sign(self.identity, self.next_sequence)
            self.next_sequence = (self.next_sequence + batch.count) & MAX_SEQUENCE
