"""InitProducerId: who may begin to speak for a transactional id, and with which epoch.

A new producer takes the next epoch, which fences the one before; if that one has left a transaction open,
it is aborted first, and the new producer has to retry. A producer that continues after an error says
what it is now (KIP-360): it gets the next epoch only if no other producer came in between. If it asks twice,
because the answer was lost, it gets the same answer twice.
"""

from __future__ import annotations

from ottla.coordinator.transaction.ending import aborted_by_coordinator, check_principal
from ottla.coordinator.transaction.requests import Initiated, InitRequest, NewProducerIdNeeded
from ottla.coordinator.transaction.transaction import NO_PRODUCER, Producer, State, Transaction
from ottla.protocol.errors import ConcurrentTransactions, ProducerFenced


def initiate(
    found: Transaction | None, request: InitRequest, now_ms: int, new_id: int | None
) -> tuple[Transaction, Initiated | None]:
    """Return what becomes of the transactional id, and the answer; None if it has to ask again."""
    if found is None:
        made = _begun(request, now_ms, _first(new_id), NO_PRODUCER)
        return made, Initiated(made.producer)
    _check_expected(found, request.expected)
    if found.state.is_ending:
        raise ConcurrentTransactions(f"{request.transactional_id} is ending its last transaction")
    if found.state == State.ONGOING:
        if request.keeps_prepared:
            return _take_over(found, request, now_ms, new_id)
        # A known producer gets its new epoch when it retries, after this transaction was aborted.
        return aborted_by_coordinator(found, now_ms, request.expected or NO_PRODUCER), None
    made = _begin_anew(found, request, now_ms, new_id)
    return made, Initiated(made.producer)


def _check_expected(found: Transaction, expected: Producer | None) -> None:
    """Refuse a producer that is neither the holder nor the one that the last answer was lost on."""
    if expected is None or expected == found.holder:
        return
    if expected == found.last and found.state != State.ONGOING:
        return
    raise ProducerFenced(f"another producer has taken over: {expected} is not {found.holder}")


def _begin_anew(found: Transaction, request: InitRequest, now_ms: int, new_id: int | None) -> Transaction:
    holder = found.holder
    if request.expected is not None and request.expected != holder:
        return _begun(request, now_ms, holder, found.last)  # a retry
    last = request.expected or NO_PRODUCER
    if holder.is_exhausted:
        return _begun(request, now_ms, _first(new_id), last)
    return _begun(request, now_ms, holder.bumped(), last)


def _begun(request: InitRequest, now_ms: int, producer: Producer, last: Producer) -> Transaction:
    return Transaction(
        producer=producer,
        timeout_ms=request.timeout_ms,
        state=State.EMPTY,
        last_update_ms=now_ms,
        last=last,
        is_two_phase=request.is_two_phase,
        principal=request.principal,
    )


def _take_over(
    found: Transaction, request: InitRequest, now_ms: int, new_id: int | None
) -> tuple[Transaction, Initiated]:
    """Fence the last holder, and leave the transaction to the new one as it is (KIP-939)."""
    check_principal(found, request.principal)
    holder = _first(new_id) if found.holder.is_exhausted else found.holder.bumped()
    taken = found.changed(
        now_ms,
        next=holder,
        last=request.expected or NO_PRODUCER,
        timeout_ms=request.timeout_ms,
        is_two_phase=request.is_two_phase or found.is_prepared,
        principal=request.principal,
    )
    return taken, Initiated(holder, ongoing=found.producer)


def _first(new_id: int | None) -> Producer:
    if new_id is None:
        raise NewProducerIdNeeded
    return Producer(new_id, 0)
