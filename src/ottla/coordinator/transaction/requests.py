"""What the machine is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.common.ids import TopicPartition
from ottla.coordinator.transaction.transaction import NO_PRODUCER, Producer


class NewProducerIdNeeded(Exception):
    """The same event has to be tried again, with an unused producer id."""


@dataclass(frozen=True, slots=True)
class InitRequest:
    """A producer begins to speak for a transactional id."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    """The id and epoch of a producer that continues after an error (KIP-360); None for a new one."""
    principal: str = ""
    is_two_phase: bool = False
    keeps_prepared: bool = False
    """Whether an ongoing transaction is left as it is, to be ended by this producer, not aborted."""


class Initiated(NamedTuple):
    """What the producer is from now on, and the transaction that it finds, if it wanted to keep it."""

    producer: Producer
    ongoing: Producer = NO_PRODUCER


class EndRequest(NamedTuple):
    """A producer commits or aborts its transaction."""

    transactional_id: str
    producer: Producer
    is_commit: bool
    bumps_epoch: bool
    """Whether the client knows that the epoch goes up (EndTxn v5, `transaction.version=2`)."""
    principal: str = ""


class WriteMarkers(NamedTuple):
    """To be sent once a decision is committed: markers for all partitions of a transaction."""

    transactional_id: str
    producer: Producer
    is_commit: bool
    partitions: frozenset[TopicPartition]
    version: int
    retires_producer_id: bool = False
    """Known once they are written: a partition has seen a higher epoch of the producer id."""


class ListedTransaction(NamedTuple):
    """One line of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str


class ListFilter(NamedTuple):
    """Which transactions to list; empty fields let everything pass."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
