"""The transactional ids of one partition of `__transaction_state`, as a pure state machine.

Requests and timers come in as calls; records, replies, timers and sends go out as a `Step`. A handler
decides and changes nothing: it raises a `KafkaError`, or returns a step. `replay` changes the state and
decides nothing. All state is in the records, so loading a partition is `replay` for each, then `loaded`.

The rules are in starting.py (InitProducerId) and ending.py (EndTxn, timeouts); what a transaction is, in
transaction.py. Markers are a send: they leave only once the decision is committed. When all of them are
written the runtime's owner calls `complete`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.coordinator.effects import NOTHING, Reply, SetTimer, Step, TimerKey, reply_only
from ottla.coordinator.transaction.ending import (
    aborted_by_coordinator,
    check_holder,
    check_principal,
    completed,
    end,
    retired,
)
from ottla.coordinator.transaction.requests import (
    EndRequest,
    Initiated,
    InitRequest,
    ListedTransaction,
    ListFilter,
    WriteMarkers,
)
from ottla.coordinator.transaction.starting import initiate
from ottla.coordinator.transaction.transaction import ENDING, Producer, Record, State, Transaction
from ottla.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
)

ABORT, EXPIRE = ("abort",), ("expire",)
AT_ONCE = 500
"""How many transactions one timer aborts or forgets; if there are more it goes on soon."""
SOON_MS = 10
PREPARED = "Prepared"
"""A name to list transactions by, beside those of the states: the ongoing ones that are prepared."""

R = TypeVar("R")
Verdicts = dict[TopicPartition, KafkaError | None]


class TransactionMachine:
    """All transactional ids of one partition. `open` are those with a transaction that has not ended."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.transactions: dict[str, Transaction] = {}
        self.open: dict[str, Transaction] = {}

    # Requests

    def init_producer_id(
        self, now_ms: int, token: int, request: InitRequest, new_id: int | None = None
    ) -> Step[Initiated]:
        """Give a producer an id and an epoch; the reply is `Initiated`, or ConcurrentTransactions."""
        request = self._with_timeout(request)
        found = self.transactions.get(request.transactional_id)
        made, answer = initiate(found, request, now_ms, new_id)
        if answer is not None:
            return _step(token, request.transactional_id, made, answer)
        again = ConcurrentTransactions("the transaction of the last producer is being aborted; try again")
        return _step(token, request.transactional_id, made, again)

    def add_partitions(
        self,
        now_ms: int,
        token: int,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
    ) -> Step[None]:
        """Add partitions to a transaction, or begin one with them; the reply is None."""
        found = self._held(transactional_id, producer)
        if found.is_prepared or found.is_taken_over:
            raise InvalidTxnState(f"{transactional_id} is prepared: it can only be committed or aborted")
        if found.state == State.ONGOING:
            if partitions <= found.partitions:
                return reply_only(token, None)
            made = found.changed(now_ms, partitions=found.partitions | partitions)
        else:
            made = found.changed(now_ms, state=State.ONGOING, start_ms=now_ms, partitions=partitions)
        return _step(token, transactional_id, made, None)

    def verify(
        self,
        now_ms: int,
        token: int,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
    ) -> Step[Verdicts]:
        """Tell which partitions are in the ongoing transaction; the reply is what stands against each."""
        found = self._held(transactional_id, producer)
        verdicts: Verdicts = {
            each: None if each in found.partitions else TransactionAbortable(f"{each} is not in it")
            for each in partitions
        }
        return reply_only(token, verdicts)

    def end(self, now_ms: int, token: int, request: EndRequest, new_id: int | None = None) -> Step[Producer]:
        """Commit or abort a transaction; the reply is the `Producer` that the client is from now on."""
        found = self._known(request.transactional_id)
        try:
            made = end(found, request, now_ms, new_id)
        except (InvalidTxnState, ProducerFenced) as refusal:
            # Clients give up for good when they hear this. A coordinator that has been replaced and does not
            # know it must not say so by what it knew: only one that can still write may refuse.
            unchanged = Record(request.transactional_id, found)
            return Step((unchanged,), replies=(Reply(token, refusal),))
        if made is found:
            return reply_only(token, found.holder)
        return _step(token, request.transactional_id, made, made.holder)

    def prepare(
        self, now_ms: int, token: int, transactional_id: str, producer: Producer, principal: str
    ) -> Step[None]:
        """Let a two-phase transaction wait for its end, however long; the reply is None."""
        found = self._held(transactional_id, producer)
        check_principal(found, principal)
        if found.state != State.ONGOING:
            raise InvalidTxnState(f"{transactional_id} has no transaction to prepare")
        if not found.is_two_phase:
            raise InvalidTxnState(f"{transactional_id} was not begun with two-phase commit")
        if found.is_prepared:
            return reply_only(token, None)
        return _step(token, transactional_id, found.changed(now_ms, is_prepared=True), None)

    def describe(self, now_ms: int, token: int, transactional_id: str) -> Step[Transaction]:
        """Tell everything about a transactional id; the reply is its `Transaction`."""
        found = self.transactions.get(transactional_id)
        if found is None:
            raise TransactionalIdNotFound(f"nothing is known of {transactional_id}")
        return reply_only(token, found)

    def list_transactions(
        self, now_ms: int, token: int, wanted: ListFilter
    ) -> Step[tuple[ListedTransaction, ...]]:
        """List the transactions that pass a filter; the reply is a tuple of `ListedTransaction`."""
        listed = (
            ListedTransaction(transactional_id, found.producer.producer_id, found.state.title)
            for transactional_id, found in self.transactions.items()
            if _passes(found, wanted, now_ms)
        )
        return reply_only(token, tuple(listed))

    # Markers

    def complete(self, now_ms: int, markers: WriteMarkers) -> Step[None]:
        """End a transaction whose markers are all written."""
        found = self.transactions.get(markers.transactional_id)
        if found is None or found.state not in ENDING or found.producer != markers.producer:
            return NOTHING
        made = completed(found, now_ms)
        if markers.retires_producer_id:
            made = retired(made, markers.producer.producer_id)
        return Step((Record(markers.transactional_id, made),))

    # Time

    def loaded(self, now_ms: int) -> Step[None]:
        """Begin to coordinate: markers that may not have been written are written again."""
        config = self.config
        timers = (
            SetTimer(ABORT, now_ms + config.transaction_abort_timed_out_transaction_cleanup_interval_ms),
            SetTimer(EXPIRE, now_ms + config.transaction_remove_expired_transaction_cleanup_interval_ms),
        )
        ending = (each for each in self.open.items() if each[1].state.is_ending)
        return Step(timers=timers, sends=tuple(_markers(*each) for each in ending))

    def on_timer(self, now_ms: int, key: TimerKey) -> Step[None]:
        """Abort transactions that have timed out, or forget ids that have expired."""
        if key == ABORT:
            records = tuple(_first(self._timed_out(now_ms)))
            every_ms = self.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            decided = (
                (name, value) for name, value in records if value is not None and value.state.is_ending
            )
            sends = tuple(_markers(*each) for each in decided)
        elif key == EXPIRE:
            records = tuple(_first(self._expired(now_ms)))
            every_ms = self.config.transaction_remove_expired_transaction_cleanup_interval_ms
            sends = ()
        else:
            raise ValueError(f"unknown timer {key}")
        next_ms = now_ms + (SOON_MS if len(records) == AT_ONCE else every_ms)
        return Step(records, timers=(SetTimer(key, next_ms),), sends=sends)

    def _timed_out(self, now_ms: int) -> Iterator[Record]:
        for transactional_id, found in self.open.items():
            if found.has_timed_out(now_ms):
                yield Record(transactional_id, aborted_by_coordinator(found, now_ms))
            elif found.start_ms > now_ms and found.state == State.ONGOING:
                # By a clock that is, or was, ahead of ours: its time begins now, at the latest.
                yield Record(transactional_id, found.changed(now_ms, start_ms=now_ms))

    def _expired(self, now_ms: int) -> Iterator[Record]:
        before_ms = now_ms - self.config.transactional_id_expiration_ms
        for transactional_id, found in self.transactions.items():
            if found.last_update_ms <= before_ms and transactional_id not in self.open:
                yield Record(transactional_id, None)

    # State

    def replay(self, record: Record) -> None:
        """Apply one record of the log."""
        transactional_id, value = record
        if value is None:
            self.transactions.pop(transactional_id, None)
            self.open.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = value
        if value.state == State.ONGOING or value.state in ENDING:
            self.open[transactional_id] = value
        else:
            self.open.pop(transactional_id, None)

    def apply(self, change: object) -> None:
        """Refuse: everything that this machine knows is in its records."""
        raise ValueError(f"unknown change {change}")

    # How

    def _known(self, transactional_id: str) -> Transaction:
        found = self.transactions.get(transactional_id)
        if found is None:
            raise InvalidProducerIdMapping(f"nobody holds {transactional_id}")
        return found

    def _held(self, transactional_id: str, producer: Producer) -> Transaction:
        found = self._known(transactional_id)
        check_holder(found, producer)
        return found

    def _with_timeout(self, request: InitRequest) -> InitRequest:
        """Return the request with the timeout that it gets."""
        longest_ms = self.config.transaction_max_timeout_ms
        if 0 < request.timeout_ms <= longest_ms:
            return request
        if request.timeout_ms <= 0 or not request.is_two_phase:
            raise InvalidTransactionTimeout(
                f"{request.timeout_ms} ms is not above 0 and at most {longest_ms} ms "
                f"(transaction.max.timeout.ms)"
            )
        # It asks for no timeout at all, which it has once it is prepared.
        return replace(request, timeout_ms=longest_ms)


def _passes(found: Transaction, wanted: ListFilter, now_ms: int) -> bool:
    states, producer_ids, longer_than_ms = wanted
    if producer_ids and found.producer.producer_id not in producer_ids:
        return False
    if states and found.state.title not in states and not (found.is_prepared and PREPARED in states):
        return False
    return longer_than_ms < 0 or (found.start_ms >= 0 and now_ms - found.start_ms > longer_than_ms)


def _step(token: int, transactional_id: str, made: Transaction, answer: R | KafkaError) -> Step[R]:
    """Return a step that writes one record, and sends the markers if it is a decision."""
    sends = (_markers(transactional_id, made),) if made.state in ENDING else ()
    return Step((Record(transactional_id, made),), replies=(Reply(token, answer),), sends=sends)


def _markers(transactional_id: str, ending: Transaction) -> WriteMarkers:
    is_commit = ending.state == State.PREPARE_COMMIT
    return WriteMarkers(transactional_id, ending.producer, is_commit, ending.partitions, ending.version)


def _first(records: Iterator[Record]) -> Iterator[Record]:
    return islice(records, AT_ONCE)
