"""Clients of the simulation: they do one transaction after another, in either generation of the protocol.

A client is a generator: it yields requests (`Ask`) and waits (`Pause`), and continues with the
response. It may crash at any time; another incarnation of its transactional id then continues. If it was
only slow, both are there for a while, and one is a zombie. What a client knows of each transaction is written
down in a `Transaction`, for the checker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.transaction_network import Answer, NoAnswer

from ottla.coordinator.transaction.machine import TransactionMachine
from ottla.coordinator.transaction.requests import EndRequest, InitRequest
from ottla.coordinator.transaction.transaction import Producer
from ottla.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
)

if TYPE_CHECKING:
    from tests.simulation.transaction_world import World

TIMEOUT_MS = 2_000
ATTEMPTS = 12
AGAIN = (
    NoAnswer,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
)
"""What a client answers by sending the same again."""


@dataclass
class Transaction:
    """One transaction as its client knows it."""

    owner: str
    number: int
    values: dict[int, list[str]] = field(default_factory=dict)  # by partition
    offset: int | None = None
    outcome: str = "open"
    """open; committing or aborting once requested; committed or aborted once acknowledged."""

    @property
    def all_values(self) -> list[str]:
        """The values in all partitions."""
        return [value for values in self.values.values() for value in values]

    @property
    def must_count(self) -> bool:
        """Whether the commit was acknowledged."""
        return self.outcome == "committed"

    @property
    def may_count(self) -> bool:
        """Whether the client has asked for a commit at least."""
        return self.outcome in ("committing", "committed")


@dataclass(frozen=True)
class Prepared:
    """What is remembered elsewhere of a prepared transaction, and what was decided about it there."""

    transaction: Transaction
    producer: Producer
    commit: bool


@dataclass(frozen=True)
class Ask:
    """A request: `handle` gets it, and where to answer."""

    handle: Callable[[Answer], None]


@dataclass(frozen=True)
class Pause:
    """Doing nothing."""

    ms: int


class GivesUp(Exception):
    """This incarnation is fenced, or at its wits' end."""


Work = Generator[Ask | Pause, Any, Any]


class Client:
    """One incarnation of a transactional id."""

    def __init__(self, world: World, name: str, is_v2: bool, is_two_phase: bool) -> None:
        self.world = world
        self.name = name
        self.is_v2 = is_v2
        self.is_two_phase = is_two_phase
        self.producer = Producer(-1, -1)
        self.sequences: dict[int, int] = {}
        self.is_at_work = False
        """Whether it has begun, and left nothing of its predecessor's."""
        self._random = world.network.random

    def run(self) -> Work:
        """Begin, and do transactions forever."""
        found = yield from self._init(keeps_prepared=self.is_two_phase)
        if self.is_two_phase and found.ongoing.producer_id >= 0:
            try:
                yield from self._finish_prepared(found.ongoing)
            except KafkaError as error:
                raise GivesUp from error
        self.is_at_work = True
        while True:
            yield Pause(self._random.randint(0, 60))
            transaction = self.world.new_transaction(self.name)
            try:
                yield from self._write(transaction)
                if self._random.random() < 0.05:
                    yield Pause(self._random.randint(0, 2 * TIMEOUT_MS))
                commit = self._random.random() < 0.7
                if self.is_two_phase:
                    yield from self._prepare(transaction, commit)
                yield from self._end(transaction, commit)
            except KafkaError:
                yield from self._recover(transaction)

    # Steps

    def _init(self, keeps_prepared: bool = False, expected: Producer | None = None) -> Work:
        request = InitRequest(
            self.name, TIMEOUT_MS, expected, "", self.is_two_phase, keeps_prepared and self.is_two_phase
        )
        answer = yield from self._persist(
            lambda: self._coordinator(TransactionMachine.init_producer_id, request)
        )
        if isinstance(answer, KafkaError):
            raise GivesUp
        self.producer = answer.producer
        self.sequences.clear()
        return answer

    def _write(self, transaction: Transaction) -> Work:
        wanted = [
            (partition, self._random.randint(1, 3))
            for partition in range(len(self.world.data))
            for _ in range(self._random.choice((0, 1, 1, 2)))
        ]
        self._random.shuffle(wanted)
        for partition, count in wanted:
            place = self.world.data[partition].topic_partition
            known = transaction.values.setdefault(partition, [])
            values = tuple(
                f"{self.name}/{transaction.number}/{partition}/{len(known) + at}" for at in range(count)
            )
            if not self.is_v2:
                yield from self._add(place)
            known += values
            yield from self._produce(partition, values)
        if self._random.random() < 0.5 or not wanted:
            transaction.offset = transaction.number
            if not self.is_v2:
                yield from self._add(self.world.offsets.partition.topic_partition)
            who, commit = tuple(self.producer), self.world.commit_offset
            number, adds = transaction.number, self.is_v2
            yield from self._demand(lambda: Ask(lambda answer: commit(self.name, who, number, adds, answer)))

    def _add(self, place: Any) -> Work:
        who, wanted = self.producer, frozenset([place])
        event = TransactionMachine.add_partitions
        yield from self._demand(lambda: self._coordinator(event, self.name, who, wanted))

    def _produce(self, partition: int, values: tuple[str, ...]) -> Work:
        sequence = self.sequences.get(partition, 0)
        who, produce = tuple(self.producer), self.world.data[partition].produce
        yield from self._demand(
            lambda: Ask(lambda answer: produce(self.name, who, sequence, values, self.is_v2, answer))
        )
        self.sequences[partition] = sequence + len(values)

    def _prepare(self, transaction: Transaction, commit: bool) -> Work:
        who = self.producer
        yield from self._demand(lambda: self._coordinator(TransactionMachine.prepare, self.name, who, ""))
        # From now on, what becomes of it is decided elsewhere, and remembered there.
        if not self.world.is_current(self):
            raise GivesUp  # there they know that it has been replaced, and do not take its word
        self.world.remember(Prepared(transaction, who, commit))
        yield Pause(self._random.choice((0, 0, 50, 3 * TIMEOUT_MS)))

    def _finish_prepared(self, ongoing: Producer) -> Work:
        """Do with the transaction that was found what was decided elsewhere; if nothing was, it goes."""
        known = self.world.prepared.get(self.name)
        if known is not None and known.producer == ongoing:
            yield from self._end(known.transaction, known.commit)
        else:
            yield from self._end(None, commit=False)

    def _end(self, transaction: Transaction | None, commit: bool) -> Work:
        if transaction is not None:
            transaction.outcome = "committing" if commit else "aborting"
        request = EndRequest(self.name, self.producer, commit, self.is_v2)
        producer = yield from self._demand(lambda: self._coordinator(TransactionMachine.end, request))
        if producer != self.producer:
            self.producer = producer
            self.sequences.clear()
        if transaction is not None:
            transaction.outcome = "committed" if commit else "aborted"

    def _recover(self, transaction: Transaction) -> Work:
        """Leave a transaction that went wrong behind, as the libraries do."""
        if transaction.outcome != "open" or self._has_prepared(transaction):
            raise GivesUp  # the outcome is unknown, or the next incarnation will end it
        transaction.outcome = "aborting"
        if self.is_v2:
            try:
                yield from self._end(transaction, commit=False)
            except KafkaError as error:
                raise GivesUp from error
        else:
            # A batch of it may still be in flight: only a new epoch fences that.
            yield from self._init(expected=self.producer)

    def _has_prepared(self, transaction: Transaction) -> bool:
        known = self.world.prepared.get(self.name)
        return known is not None and known.transaction is transaction

    # Patience

    def _coordinator(self, event: Any, *args: Any) -> Ask:
        return Ask(lambda answer: self.world.coordinator.call(event, *args, answer=answer))

    def _persist(self, ask: Callable[[], Ask]) -> Work:
        """Ask until there is an answer that is one; raise GivesUp when there is none for long."""
        for attempt in range(ATTEMPTS):
            answer = yield ask()
            if not isinstance(answer, AGAIN):
                return answer
            yield Pause(min(20 * 2**attempt, 500))
        raise GivesUp

    def _demand(self, ask: Callable[[], Ask]) -> Work:
        """Ask until there is an answer, and raise it if it is an error."""
        answer = yield from self._persist(ask)
        if isinstance(answer, KafkaError):
            raise answer
        return answer
