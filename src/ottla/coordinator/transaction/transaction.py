"""What the coordinator knows of one transactional id: the value of its last record, and nothing else.

    Empty ──────────► Ongoing ──► PrepareCommit ──► CompleteCommit ─┐
      ▲                  │                                          │ AddPartitions: Ongoing again
      │ InitProducerId   └──────► PrepareAbort ───► CompleteAbort ──┘ InitProducerId: Empty again

From Prepare on there is no way back: the markers are being written into the partitions.

**Who holds the id.** A producer speaks for a transactional id with a producer id and an epoch. Every new
holder gets a higher epoch, which fences the one before. With `transaction.version=2` (KIP-890) every
transaction ends with a higher epoch too, so a late request of the last one cannot touch the next one.

The epochs of one producer id end at 32,767, which no producer is ever given: it is there to fence the last
one with. Then a new producer id takes over. Its place is `next`: while the markers are written, `producer`
is still the old id, whose records are in the partitions. `next` serves two-phase commits as well
(KIP-939): whoever takes over a prepared transaction gets a new epoch, and the transaction keeps its own.

**`last`** is what the holder had before its last change of epoch, if that change was an answer to the holder
itself. A request with it is a retry: the answer was lost. After a change that fenced somebody it is nobody.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from ottla.common.ids import TopicPartition

LAST_EPOCH: Final = 2**15 - 1
"""For fencing only."""


class State(IntEnum):
    """Where a transaction stands; the numbers are those of Kafka's records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Return Kafka's name: `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_ending(self) -> bool:
        """Tell whether its markers are being written."""
        return self in ENDING


ENDING: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
"""The states in which markers are being written."""


class Producer(NamedTuple):
    """A producer id, and an epoch of it."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"producer {self.producer_id} in epoch {self.epoch}"

    @property
    def is_exhausted(self) -> bool:
        """Tell whether the next epoch could not be given to a producer."""
        return self.epoch >= LAST_EPOCH - 1

    def bumped(self) -> Producer:
        """Return the next epoch."""
        return Producer(self.producer_id, self.epoch + 1)


NO_PRODUCER: Final = Producer(-1, -1)


class Transaction(NamedTuple):
    """One transactional id and its transaction."""

    producer: Producer
    """In whose name the records and markers of the transaction are written."""
    timeout_ms: int
    state: State
    last_update_ms: int
    start_ms: int = -1
    partitions: frozenset[TopicPartition] = frozenset()
    last: Producer = NO_PRODUCER
    next: Producer = NO_PRODUCER
    version: int = 0
    """The `transaction.version` by which it was ended: 2 if the epoch went up with that."""
    is_two_phase: bool = False
    is_prepared: bool = False
    principal: str = ""

    @property
    def holder(self) -> Producer:
        """Return who may speak for the transactional id, or will when the markers are written."""
        return self.producer if self.next == NO_PRODUCER else self.next

    @property
    def is_taken_over(self) -> bool:
        """Tell whether somebody else than its producer is to end the ongoing transaction."""
        return self.state == State.ONGOING and self.next != NO_PRODUCER

    def has_timed_out(self, now_ms: int) -> bool:
        """Tell whether its time is over; a prepared transaction has all the time of the world."""
        is_waiting = self.state == State.ONGOING and not self.is_prepared
        return is_waiting and self.start_ms + self.timeout_ms <= now_ms

    def changed(self, now_ms: int, **fields: object) -> Transaction:
        """Return it with other values, updated now."""
        return self._replace(last_update_ms=now_ms, **fields)  # type: ignore[arg-type]


class Record(NamedTuple):
    """One record of `__transaction_state`; without a value the id is forgotten."""

    transactional_id: str
    value: Transaction | None
