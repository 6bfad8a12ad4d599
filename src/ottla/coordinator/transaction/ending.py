"""EndTxn, and every other way in which a transaction ends.

What EndTxn answers when no transaction is open (`retry` is a request with the epoch before the last end):

    classic (EndTxn v0-4)          commit            abort
      Empty                        INVALID_TXN_STATE INVALID_TXN_STATE
      CompleteCommit               ok                INVALID_TXN_STATE
      CompleteAbort                INVALID_TXN_STATE ok

    transaction.version=2 (v5)     commit            abort             commit, retry      abort, retry
      Empty                        INVALID_TXN_STATE a new epoch       PRODUCER_FENCED    PRODUCER_FENCED
      CompleteCommit               INVALID_TXN_STATE a new epoch       ok                 INVALID_TXN_STATE
      CompleteAbort                INVALID_TXN_STATE a new epoch       INVALID_TXN_STATE  ok

The classic protocol cannot distinguish a late request of the last transaction from one of the next: the epoch
is the same. (docs/transactions.md has what can happen.) With version 2 it can.

A transaction that the coordinator aborts itself, because it has timed out or a new producer has come,
always ends with a higher epoch, and its markers carry that: what the fenced producer still sends is refused.
"""

from __future__ import annotations

from ottla.coordinator.transaction.requests import EndRequest, NewProducerIdNeeded
from ottla.coordinator.transaction.transaction import (
    ENDING,
    LAST_EPOCH,
    NO_PRODUCER,
    Producer,
    State,
    Transaction,
)
from ottla.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)

BUMPS_EPOCH = 2
"""The `transaction.version` in which every transaction ends with a higher epoch."""


def check_holder(found: Transaction, producer: Producer) -> None:
    """Refuse a producer that does not hold the transactional id, and every one while a transaction ends."""
    if producer.epoch >= LAST_EPOCH:
        # No producer is ever given it. A transaction in it could not be aborted: there is no higher epoch.
        raise ProducerFenced(f"{producer} has an epoch that is for fencing only")
    holder, is_ending = found.holder, found.state in ENDING
    if producer == holder or (is_ending and producer == found.producer):
        if is_ending:
            raise ConcurrentTransactions("the last transaction is still being ended")
        return
    if producer.producer_id not in (holder.producer_id, found.producer.producer_id):
        raise InvalidProducerIdMapping(f"the id has {holder}, not {producer}")
    raise ProducerFenced(f"the id has {holder}, not {producer}")


def check_principal(found: Transaction, principal: str) -> None:
    """Refuse to end a two-phase transaction of another principal."""
    if found.is_two_phase and found.principal != principal:
        raise TransactionalIdAuthorizationFailed(f"the transaction belongs to {found.principal}")


def end(found: Transaction, request: EndRequest, now_ms: int, new_id: int | None) -> Transaction:
    """Return what becomes of a transaction that its producer ends; the same if it has ended already."""
    check_principal(found, request.principal)
    if found.state == State.ONGOING:
        check_holder(found, request.producer)
        return _ended_by_client(found, request, now_ms, new_id)
    is_retry = request.bumps_epoch and _is_retry(found, request.producer)
    if not is_retry and not _is_repeated(found, request):
        check_holder(found, request.producer)
    if found.state in ENDING:
        _check_direction(found, request)
        raise ConcurrentTransactions("the transaction is being ended already")
    if is_retry or (not request.bumps_epoch and found.state != State.EMPTY):
        _check_direction(found, request)
        return found
    if request.bumps_epoch and not request.is_commit:
        # The client cannot know whether its last request has reached us; a new epoch distinguishes them.
        return _aborted_without_begin(found, now_ms, new_id)
    raise InvalidTxnState(f"there is no transaction to end in state {found.state.title}")


def aborted_by_coordinator(found: Transaction, now_ms: int, last: Producer = NO_PRODUCER) -> Transaction:
    """Return an ongoing transaction that is aborted in a new epoch, which fences its producer.

    `last` is the producer if it has asked for that itself, and may continue in the new epoch.
    """
    if found.holder.is_exhausted:
        last = NO_PRODUCER  # the last epoch is for fencing only
    return _decided(found, now_ms, State.PREPARE_ABORT, found.holder.bumped(), last, BUMPS_EPOCH)


def completed(found: Transaction, now_ms: int) -> Transaction:
    """Return a transaction whose markers are all written."""
    is_commit = found.state == State.PREPARE_COMMIT
    return found.changed(
        now_ms,
        producer=found.holder,
        next=NO_PRODUCER,
        state=State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
        partitions=frozenset(),
        is_prepared=False,
    )


def retired(found: Transaction, producer_id: int) -> Transaction:
    """Return a completed transaction whose holder is fenced, so that the next one gets a new producer id."""
    if found.holder.producer_id != producer_id:
        return found  # it has a new one already
    return found._replace(producer=Producer(producer_id, LAST_EPOCH), last=NO_PRODUCER)


def _is_retry(found: Transaction, producer: Producer) -> bool:
    """Return whether the producer has missed the answer to the EndTxn by which it got its epoch."""
    has_ended = found.state not in (State.EMPTY, State.ONGOING)
    return has_ended and found.version == BUMPS_EPOCH and producer == found.last != NO_PRODUCER


def _is_repeated(found: Transaction, request: EndRequest) -> bool:
    """Return whether a classic client asks again while its transaction is being ended."""
    return not request.bumps_epoch and found.state.is_ending and request.producer == found.holder


def _check_direction(found: Transaction, request: EndRequest) -> None:
    was_commit = found.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    if was_commit != request.is_commit:
        raise InvalidTxnState(f"the transaction is in state {found.state.title}")


def _ended_by_client(found: Transaction, request: EndRequest, now_ms: int, new_id: int | None) -> Transaction:
    state = State.PREPARE_COMMIT if request.is_commit else State.PREPARE_ABORT
    holder = request.producer  # it has been checked
    if not request.bumps_epoch:
        return _decided(found, now_ms, state, holder, found.last, version=0)
    return _decided(found, now_ms, state, _next_holder(holder, new_id), holder, BUMPS_EPOCH)


def _decided(
    found: Transaction, now_ms: int, state: State, holder: Producer, last: Producer, version: int
) -> Transaction:
    """Return a transaction that has been decided: markers of `producer` now, the id to `holder` then."""
    in_log = found.producer
    keeps_id = holder.producer_id == in_log.producer_id
    return found.changed(
        now_ms,
        state=state,
        # Records of the old id may still be in flight: its marker has a higher epoch, as with the same id.
        producer=holder if keeps_id else in_log.bumped(),
        next=NO_PRODUCER if keeps_id else holder,
        last=last,
        version=version,
    )


def _aborted_without_begin(found: Transaction, now_ms: int, new_id: int | None) -> Transaction:
    return found.changed(
        now_ms,
        state=State.COMPLETE_ABORT,
        producer=_next_holder(found.holder, new_id),
        last=found.holder,
        start_ms=now_ms,
        version=BUMPS_EPOCH,
    )


def _next_holder(holder: Producer, new_id: int | None) -> Producer:
    if not holder.is_exhausted:
        return holder.bumped()
    if new_id is None:
        raise NewProducerIdNeeded
    return Producer(new_id, 0)
