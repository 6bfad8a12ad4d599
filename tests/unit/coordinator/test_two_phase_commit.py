"""Two-phase commit (KIP-939, with a prepare of our own): kept until whoever holds the id ends it."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.transaction_table import ID, A, B, TransactionTable

from ottla.coordinator.transaction.requests import Initiated
from ottla.coordinator.transaction.transaction import LAST_EPOCH, Producer, Record, State
from ottla.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)

YEAR_MS = 366 * 86_400_000


@pytest.fixture
def table() -> TransactionTable:
    return TransactionTable()


def prepared(table: TransactionTable, **wanted: object) -> Producer:
    producer = table.begin(is_two_phase=True, **wanted)
    table.prepare(producer)
    return producer


def taken_over(table: TransactionTable) -> Initiated:
    return table.init(is_two_phase=True, keeps_prepared=True)


def test_a_prepared_transaction_has_no_timeout_and_never_expires(table: TransactionTable) -> None:
    producer = prepared(table, timeout_ms=1_000)
    table.pass_time(YEAR_MS)
    table.fail_over()
    table.pass_time(YEAR_MS)
    assert table.txn.state == State.ONGOING
    table.end(producer)
    (markers,) = table.write_markers()
    assert markers.is_commit


def test_an_unprepared_one_times_out_like_any_other(table: TransactionTable) -> None:
    table.begin(is_two_phase=True, timeout_ms=5_000)
    table.pass_time(20_000)
    assert table.txn.state == State.PREPARE_ABORT


def test_a_two_phase_producer_may_ask_for_any_time_and_gets_the_longest(table: TransactionTable) -> None:
    table.producer(is_two_phase=True, timeout_ms=2**31 - 1)
    assert table.txn.timeout_ms == table.config.transaction_max_timeout_ms
    with pytest.raises(InvalidTransactionTimeout):
        table.producer(is_two_phase=True, timeout_ms=0)


def test_preparing_twice_is_fine_and_nothing_can_be_added_then(table: TransactionTable) -> None:
    producer = prepared(table)
    size = len(table.log)
    table.prepare(producer)
    assert len(table.log) == size
    for partition in (A, B):
        with pytest.raises(InvalidTxnState):
            table.add(producer, partition)


def test_there_has_to_be_something_to_prepare(table: TransactionTable) -> None:
    producer = table.producer(is_two_phase=True)
    with pytest.raises(InvalidTxnState):
        table.prepare(producer)
    table.add(producer)
    after = table.end(producer)
    with pytest.raises(ConcurrentTransactions):
        table.prepare(after)
    with pytest.raises(ProducerFenced):
        table.prepare(producer)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("v", [4, 5])
def test_the_next_producer_of_the_id_ends_the_transaction(
    table: TransactionTable, commit: bool, v: int
) -> None:
    before = prepared(table)
    table.fail_over()
    now, ongoing = taken_over(table)
    assert ongoing == before
    assert now == before.bumped()
    table.pass_time(YEAR_MS)
    after = table.end(now, commit, v=v)
    assert after == (now.bumped() if v == 5 else now)
    (markers,) = table.write_markers()
    assert (markers.is_commit, markers.partitions) == (commit, {A})
    assert markers.producer == after
    table.begin(after)


def test_the_one_before_is_fenced_by_the_take_over(table: TransactionTable) -> None:
    before = prepared(table)
    taken_over(table)
    for ask in (table.end, table.add, table.prepare, table.verify):
        with pytest.raises(ProducerFenced):
            ask(before)


def test_who_has_taken_over_cannot_write(table: TransactionTable) -> None:
    table.begin(is_two_phase=True)
    now, _ = taken_over(table)
    with pytest.raises(InvalidTxnState):
        table.add(now, B)


def test_it_can_be_taken_over_again_and_again(table: TransactionTable) -> None:
    before = prepared(table)
    for turn in range(1, 4):
        now, ongoing = taken_over(table)
        assert ongoing == before
        assert now.epoch == before.epoch + turn
        table.fail_over()
    assert table.end(now) == now.bumped()


def test_taking_over_before_it_is_prepared_does_not_stop_the_clock(table: TransactionTable) -> None:
    table.begin(is_two_phase=True, timeout_ms=30_000)
    table.pass_time(10_000)
    now, _ = table.init(is_two_phase=True, keeps_prepared=True, timeout_ms=30_000)
    table.pass_time(30_000)
    assert table.txn.state == State.PREPARE_ABORT
    table.write_markers()
    with pytest.raises(ProducerFenced):
        table.end(now)


def test_keeping_what_is_not_there_is_a_plain_beginning(table: TransactionTable) -> None:
    assert taken_over(table) == (Producer(1001, 0), (-1, -1))
    assert taken_over(table) == (Producer(1001, 1), (-1, -1))
    producer = table.begin(is_two_phase=True)
    table.end(producer)
    with pytest.raises(ConcurrentTransactions):
        taken_over(table)


def test_without_keeping_it_is_aborted(table: TransactionTable) -> None:
    before = prepared(table)
    with pytest.raises(ConcurrentTransactions):
        table.producer(is_two_phase=True)
    (markers,) = table.write_markers()
    assert not markers.is_commit
    assert table.producer().epoch == before.epoch + 2


def test_an_abort_by_the_coordinator_fences_who_has_taken_over_too(table: TransactionTable) -> None:
    prepared(table)
    now, _ = taken_over(table)
    with pytest.raises(ConcurrentTransactions):
        table.producer()
    (markers,) = table.write_markers()
    assert markers.producer == now.bumped()
    with pytest.raises(ProducerFenced):
        table.end(now)


def test_at_the_end_of_the_epochs_it_is_taken_over_by_another_id(table: TransactionTable) -> None:
    producer = Producer(table.producer(is_two_phase=True).producer_id, LAST_EPOCH - 1)
    table.machine.replay(Record(ID, table.txn.changed(0, producer=producer)))
    table.add(producer)
    table.prepare(producer)
    now, ongoing = taken_over(table)
    assert (now, ongoing) == (Producer(1002, 0), producer)
    with pytest.raises(ProducerFenced):
        table.end(producer)
    after = table.end(now)
    assert after == Producer(1002, 1)
    with pytest.raises(ConcurrentTransactions):
        table.add(after)
    (markers,) = table.write_markers()
    assert markers.producer == Producer(producer.producer_id, LAST_EPOCH)
    assert table.txn.producer == after
    with pytest.raises(InvalidProducerIdMapping):
        table.add(producer)


def test_only_its_own_principal_decides_about_a_two_phase_transaction(table: TransactionTable) -> None:
    producer = table.begin(is_two_phase=True, principal="User:sink")
    with pytest.raises(TransactionalIdAuthorizationFailed):
        table.prepare(producer, principal="User:other")
    table.prepare(producer, principal="User:sink")
    with pytest.raises(TransactionalIdAuthorizationFailed):
        table.end(producer, by="User:other")
    table.end(producer, by="User:sink")


def test_only_its_own_principal_may_take_a_two_phase_transaction_over(table: TransactionTable) -> None:
    """Who could take it over could end it, which others may not."""
    prepared(table)
    before = table.txn
    with pytest.raises(TransactionalIdAuthorizationFailed):
        table.init(is_two_phase=True, keeps_prepared=True, principal="User:other")
    assert table.txn == before
    taken_over(table)


def test_other_transactions_are_left_to_the_acls(table: TransactionTable) -> None:
    producer = table.begin(principal="User:one")
    table.end(producer, by="User:other")
