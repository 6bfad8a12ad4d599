"""Epochs: KIP-890 (a new one with every end), KIP-360 (going on after errors), and when they are used up."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.transaction_table import ID, A, B, TransactionTable

from ottla.coordinator.transaction.transaction import LAST_EPOCH, NO_PRODUCER, Producer, Record, State
from ottla.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
)

USABLE = LAST_EPOCH - 1


@pytest.fixture
def table() -> TransactionTable:
    return TransactionTable()


def ended(table: TransactionTable, commit: bool) -> tuple[Producer, Producer]:
    """Return what the producer of a transaction that has ended was, and is."""
    before = table.begin()
    after = table.end(before, commit)
    table.write_markers()
    return before, after


def at_epoch(table: TransactionTable, epoch: int) -> Producer:
    """Return a producer that has come to an epoch without the 30,000 steps before it."""
    producer = Producer(table.producer().producer_id, epoch)
    record = Record(ID, table.txn.changed(table.now_ms, producer=producer))
    table.machine.replay(record)
    table.log.append(record)
    return producer


# KIP-890


@pytest.mark.parametrize("commit", [True, False])
def test_with_version_2_every_end_is_a_new_epoch_and_the_markers_carry_it(
    table: TransactionTable, commit: bool
) -> None:
    producer = table.begin()
    after = table.end(producer, commit)
    assert after == producer.bumped()
    (markers,) = table.write_markers()
    assert (markers.producer, markers.version) == (after, 2)
    table.add(after)
    with pytest.raises(ProducerFenced):
        table.add(producer, B)


def test_a_late_end_cannot_touch_the_next_transaction(table: TransactionTable) -> None:
    before, after = ended(table, commit=True)
    table.add(after)
    for commit in (True, False):
        with pytest.raises(ProducerFenced):
            table.end(before, commit)
    assert table.txn.state == State.ONGOING


def test_in_the_classic_protocol_a_late_end_does_touch_the_next_transaction(table: TransactionTable) -> None:
    """Inherent: nothing in the request says which transaction it belongs to."""
    producer = table.begin()
    table.end(producer, v=4)
    table.write_markers()
    table.add(producer)
    table.end(producer, v=4)
    assert table.txn.state == State.PREPARE_COMMIT


TABLE_OF_KIP_890 = [
    # state, commit, is a retry, outcome
    ("empty", False, True, ProducerFenced),
    ("empty", False, False, "new epoch"),
    ("empty", True, True, ProducerFenced),
    ("empty", True, False, InvalidTxnState),
    ("aborted", False, True, "same answer"),
    ("aborted", False, False, "new epoch"),
    ("aborted", True, True, InvalidTxnState),
    ("aborted", True, False, InvalidTxnState),
    ("committed", False, True, InvalidTxnState),
    ("committed", False, False, "new epoch"),
    ("committed", True, True, "same answer"),
    ("committed", True, False, InvalidTxnState),
]


@pytest.mark.parametrize(("state", "commit", "retry", "outcome"), TABLE_OF_KIP_890)
def test_an_end_without_a_transaction_is_a_retry_or_a_new_epoch_or_a_mistake(
    table: TransactionTable, state: str, commit: bool, retry: bool, outcome: str | type[KafkaError]
) -> None:
    if state == "empty":
        before, now = table.producer(), table.producer()
    else:
        before, now = ended(table, commit=state == "committed")
    asks = before if retry else now
    if isinstance(outcome, type):
        with pytest.raises(outcome):
            table.end(asks, commit)
        assert table.txn.producer == now
    elif outcome == "new epoch":
        assert table.end(asks, commit) == now.bumped()
        assert table.txn.state == State.COMPLETE_ABORT
        assert not table.sent
        table.add(now.bumped())
    else:
        size = len(table.log)
        assert table.end(asks, commit) == now
        assert len(table.log) == size


def test_a_retry_while_the_markers_are_written_has_to_wait(table: TransactionTable) -> None:
    producer = table.begin()
    after = table.end(producer)
    with pytest.raises(ConcurrentTransactions):
        table.end(producer)
    with pytest.raises(InvalidTxnState):
        table.end(producer, commit=False)
    with pytest.raises(ConcurrentTransactions):
        table.end(after, commit=False)
    with pytest.raises(ConcurrentTransactions):
        table.add(after)
    table.fail_over()
    table.write_markers()
    assert table.end(producer) == after


@pytest.mark.parametrize("commit", [True, False])
def test_a_classic_retry_gets_the_same_answer_and_the_opposite_none(
    table: TransactionTable, commit: bool
) -> None:
    producer = table.begin()
    table.end(producer, commit, v=4)
    with pytest.raises(ConcurrentTransactions):
        table.end(producer, commit, v=4)
    with pytest.raises(InvalidTxnState):
        table.end(producer, not commit, v=4)
    table.write_markers()
    assert table.end(producer, commit, v=4) == producer
    with pytest.raises(InvalidTxnState):
        table.end(producer, not commit, v=4)


def test_a_classic_end_of_nothing_is_a_mistake(table: TransactionTable) -> None:
    producer = table.producer()
    for commit in (True, False):
        with pytest.raises(InvalidTxnState):
            table.end(producer, commit, v=4)


# KIP-360


def test_a_producer_that_continues_after_an_error_gets_the_next_epoch(table: TransactionTable) -> None:
    producer = table.producer()
    assert table.producer(expected=producer) == producer.bumped()


def test_and_the_same_again_if_the_answer_was_lost_also_after_a_failover(table: TransactionTable) -> None:
    producer = table.producer()
    table.producer(expected=producer)
    table.fail_over()
    assert table.producer(expected=producer) == producer.bumped()


def test_but_not_when_another_has_come_in_between(table: TransactionTable) -> None:
    producer = table.producer()
    table.producer()
    with pytest.raises(ProducerFenced):
        table.producer(expected=producer)


def test_a_zombie_cannot_abort_what_continues(table: TransactionTable) -> None:
    producer = table.producer()
    now = table.begin(table.producer(expected=producer))
    with pytest.raises(ProducerFenced):
        table.producer(expected=producer)
    assert table.txn.state == State.ONGOING
    table.end(now)


def test_a_producer_that_continues_amid_its_transaction_has_it_aborted(table: TransactionTable) -> None:
    producer = table.begin()
    with pytest.raises(ConcurrentTransactions):
        table.producer(expected=producer)
    (markers,) = table.write_markers()
    assert not markers.is_commit
    assert table.producer(expected=producer) == markers.producer


def test_a_producer_whose_id_was_forgotten_gets_another(table: TransactionTable) -> None:
    assert table.producer(expected=Producer(7, 3)) == Producer(1001, 0)


# The end of epochs


def test_after_the_last_epoch_comes_another_producer_id(table: TransactionTable) -> None:
    old = at_epoch(table, USABLE)
    table.add(old, A)
    after = table.end(old)
    assert after == Producer(1002, 0)
    for ask in (lambda: table.add(after, B), lambda: table.end(old)):
        with pytest.raises(ConcurrentTransactions):
            ask()
    (markers,) = table.write_markers()
    assert markers.producer == Producer(old.producer_id, LAST_EPOCH)
    assert table.txn.producer == after
    assert table.txn.next == NO_PRODUCER
    assert table.end(old) == after  # a retry
    table.add(after, B)
    with pytest.raises(InvalidProducerIdMapping):
        table.end(old)


def test_a_new_producer_gets_another_id_when_the_epochs_are_used_up(table: TransactionTable) -> None:
    at_epoch(table, USABLE)
    assert table.producer() == Producer(1002, 0)


def test_the_last_producer_of_an_id_can_still_be_fenced(table: TransactionTable) -> None:
    old = at_epoch(table, USABLE)
    table.add(old)
    with pytest.raises(ConcurrentTransactions):
        table.producer()
    (markers,) = table.write_markers()
    assert markers.producer == Producer(old.producer_id, LAST_EPOCH)
    with pytest.raises(ProducerFenced):
        table.producer(expected=old)
    assert table.producer() == Producer(1002, 0)


def test_a_lost_answer_with_another_id_is_given_again(table: TransactionTable) -> None:
    old = at_epoch(table, USABLE)
    first = table.producer(expected=old)
    assert first == Producer(1002, 0)
    table.fail_over()
    assert table.producer(expected=old) == first


def test_an_abort_of_nothing_can_use_up_the_epochs_too(table: TransactionTable) -> None:
    old = at_epoch(table, USABLE)
    assert table.end(old, commit=False) == Producer(1002, 0)
    assert table.end(old, commit=False) == Producer(1002, 0)


def test_the_epoch_for_fencing_cannot_be_used(table: TransactionTable) -> None:
    """A transaction in it could not be aborted for want of a higher epoch, and would never time out."""
    old = at_epoch(table, USABLE)
    table.add(old)
    with pytest.raises(ConcurrentTransactions):
        table.producer()
    table.write_markers()
    fence = table.txn.producer
    assert fence == Producer(old.producer_id, LAST_EPOCH)
    for ask in (table.add, table.end, table.verify):
        with pytest.raises(ProducerFenced):
            ask(fence)
    assert table.producer(expected=fence) == Producer(1002, 0)
