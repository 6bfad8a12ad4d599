"""Transactions from begin to end: states, fencing, timeouts, expiry."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.memory_writer import MemoryWriter
from tests.unit.coordinator.transaction_table import ID, A, B, TransactionTable

from ottla.common.clock import ManualClock
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.transaction.machine import MAX_PER_EVENT, PREPARED, TransactionMachine
from ottla.coordinator.transaction.requests import EndRequest, ListFilter
from ottla.coordinator.transaction.transaction import Producer, State
from ottla.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    NotCoordinator,
    ProducerFenced,
    TransactionalIdNotFound,
)

DAY_MS = 86_400_000


@pytest.fixture
def table() -> TransactionTable:
    return TransactionTable()


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_is_decided_before_its_markers_are_sent_and_complete_when_all_are_written(
    table: TransactionTable, commit: bool
) -> None:
    producer = table.begin()
    table.add(producer, B)
    assert table.txn.state == State.ONGOING
    assert not table.sent
    table.end(producer, commit, v=4)
    assert table.txn.state == (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
    (markers,) = table.write_markers()
    assert (markers.producer, markers.is_commit, markers.partitions) == (producer, commit, {A, B})
    assert table.txn.state == (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert table.txn.partitions == frozenset()
    assert table.txn.producer == producer


def test_the_first_producer_has_epoch_0_and_every_new_one_the_next(table: TransactionTable) -> None:
    first = table.producer()
    assert first == Producer(1001, 0)
    assert table.producer() == Producer(1001, 1)
    assert table.producer("another") == Producer(1002, 0)
    with pytest.raises(ProducerFenced):
        table.add(first)
    with pytest.raises(ProducerFenced):
        table.end(first, v=4)


def test_a_new_producer_aborts_what_the_last_one_left_and_must_try_again(
    table: TransactionTable,
) -> None:
    zombie = table.begin()
    with pytest.raises(ConcurrentTransactions):
        table.producer()
    assert table.txn.state == State.PREPARE_ABORT
    with pytest.raises(ConcurrentTransactions):
        table.producer()
    (markers,) = table.write_markers()
    assert markers.producer == zombie.bumped()
    assert not markers.is_commit
    assert table.producer() == Producer(zombie.producer_id, zombie.epoch + 2)
    for late in (lambda: table.add(zombie), lambda: table.end(zombie), lambda: table.end(zombie, v=1)):
        with pytest.raises(ProducerFenced):
            late()


def test_requests_of_unknown_ids_and_producers_are_refused(table: TransactionTable) -> None:
    nobody = Producer(1, 0)
    for ask in (table.add, table.verify, table.end, table.prepare):
        with pytest.raises(InvalidProducerIdMapping):
            ask(nobody)
    table.producer()
    for ask in (table.add, table.verify, table.end, table.prepare):
        with pytest.raises(InvalidProducerIdMapping):
            ask(nobody)


async def test_a_coordinator_that_may_have_been_replaced_does_not_send_clients_away(
    table: TransactionTable,
) -> None:
    table.begin()
    writer = MemoryWriter(list(table.log))
    runtime = Runtime(TransactionMachine(table.config), writer, ManualClock(), commit_timeout_ms=10_000)
    await runtime.load()
    runtime.activate()
    writer.holds_back = True  # nobody copies what it writes any more
    ended_elsewhere = Producer(1001, 5)  # by a newer coordinator, of which this one has not heard
    refusal = runtime.call(TransactionMachine.end, EndRequest(ID, ended_elsewhere, True, True))
    assert not refusal.done()
    runtime.unload()
    with pytest.raises(NotCoordinator):
        await refusal


def test_who_refuses_an_end_writes_what_it_knows_and_changes_nothing(table: TransactionTable) -> None:
    producer = table.producer()
    before = table.txn
    with pytest.raises(InvalidTxnState):
        table.end(producer)
    assert table.txn == before
    assert table.log[-1].value == before
    assert not table.sent


def test_while_a_transaction_ends_the_next_has_to_wait(table: TransactionTable) -> None:
    producer = table.begin()
    table.end(producer, v=3)
    for ask in (lambda: table.add(producer, B), lambda: table.verify(producer), lambda: table.producer()):
        with pytest.raises(ConcurrentTransactions):
            ask()
    table.write_markers()
    table.add(producer, B)
    assert table.txn.partitions == {B}


def test_adding_what_is_in_the_transaction_writes_nothing(table: TransactionTable) -> None:
    producer = table.begin()
    size = len(table.log)
    table.add(producer, A)
    assert len(table.log) == size
    table.add(producer, A, B)
    assert len(table.log) == size + 1


def test_a_partition_is_verified_only_while_its_transaction_continues(table: TransactionTable) -> None:
    producer = table.begin()
    assert table.verify(producer, A, B) == [None, "TransactionAbortable"]
    table.end(producer, v=4)
    table.write_markers()
    assert table.verify(producer, A) == ["TransactionAbortable"]
    with pytest.raises(ProducerFenced):
        table.verify(producer.bumped(), A)


def test_markers_are_sent_again_after_a_failover(table: TransactionTable) -> None:
    producer = table.begin()
    table.end(producer)
    sent = list(table.sent)
    table.fail_over()
    assert table.sent == sent
    table.write_markers()
    table.fail_over()
    assert not table.sent


def test_markers_that_come_twice_complete_once(table: TransactionTable) -> None:
    producer = table.begin()
    table.end(producer)
    (markers,) = table.write_markers()
    size = len(table.log)
    table.take(table.machine.complete(table.now_ms, markers))
    assert len(table.log) == size


# Time


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    table: TransactionTable,
) -> None:
    producer = table.begin(timeout_ms=15_000)
    table.pass_time(10_000)
    assert table.txn.state == State.ONGOING
    table.pass_time(10_000)
    assert table.txn.state == State.PREPARE_ABORT
    (markers,) = table.write_markers()
    assert markers.producer == producer.bumped()
    with pytest.raises(ProducerFenced):
        table.end(producer)
    with pytest.raises(ProducerFenced):
        table.end(producer, commit=False)


def test_the_time_of_a_transaction_begins_with_its_first_partition(table: TransactionTable) -> None:
    producer = table.producer(timeout_ms=15_000)
    table.pass_time(60_000)
    table.add(producer, A)
    table.pass_time(10_000)
    table.add(producer, B)
    assert table.txn.state == State.ONGOING
    table.pass_time(10_000)
    assert table.txn.state == State.PREPARE_ABORT


def test_a_failover_gives_no_more_time(table: TransactionTable) -> None:
    table.begin(timeout_ms=5_000)
    table.now_ms += 60_000
    table.fail_over()
    table.pass_time(10_000)
    assert table.txn.state == State.PREPARE_ABORT


def test_a_failover_to_a_clock_that_is_behind_gives_little_more_time(table: TransactionTable) -> None:
    table.begin(timeout_ms=15_000)
    table.now_ms -= 3_600_000
    table.fail_over()
    table.pass_time(10_000)
    assert table.txn.state == State.ONGOING
    assert table.txn.start_ms == table.now_ms
    assert not table.sent
    table.pass_time(20_000)
    assert table.txn.state == State.PREPARE_ABORT
    assert len(table.sent) == 1


def test_many_timeouts_are_worked_off_a_part_at_a_time() -> None:
    table = TransactionTable()
    count = MAX_PER_EVENT + 10
    for each in range(count):
        table.add(table.producer(f"t{each}", timeout_ms=1_000), A, key=f"t{each}")
    table.pass_time(10_000)
    assert len(table.sent) == MAX_PER_EVENT
    table.pass_time(100)
    assert len(table.sent) == count


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_timeout_that_is_no_time_or_too_long_is_refused(table: TransactionTable, timeout_ms: int) -> None:
    with pytest.raises(InvalidTransactionTimeout):
        table.producer(timeout_ms=timeout_ms)
    assert not table.log


def test_an_id_is_forgotten_after_a_time_without_transactions() -> None:
    table = TransactionTable(transactional_id_expiration_ms=DAY_MS)
    done, busy = table.begin(), table.producer("busy", is_two_phase=True)
    table.end(done)
    table.write_markers()
    table.add(busy, key="busy")
    table.prepare(busy, "busy")
    table.pass_time(DAY_MS + 7_200_000)
    assert set(table.machine.transactions) == {"busy"}
    assert table.log[-1] == (ID, None)
    with pytest.raises(InvalidProducerIdMapping):
        table.add(done)
    assert table.producer().producer_id > busy.producer_id


def test_an_id_that_is_used_is_remembered() -> None:
    table = TransactionTable(transactional_id_expiration_ms=DAY_MS)
    producer = table.producer()
    for _ in range(5):
        table.pass_time(DAY_MS // 2)
        table.add(producer)
        producer = table.end(producer)
        table.write_markers()
    assert ID in table.machine.transactions


# Looking


def listed(table: TransactionTable, **wanted: object) -> list[str]:
    step = table.machine.list_transactions(table.now_ms, 1, ListFilter(**wanted))  # type: ignore[arg-type]
    return sorted(each.transactional_id for each in step.replies[0].response)  # type: ignore[attr-defined]


def test_transactions_are_listed_by_state_producer_and_age() -> None:
    table = TransactionTable()
    old = table.begin(key="old")
    table.pass_time(5_000)
    table.begin(key="young")
    waits = table.producer("waits", is_two_phase=True)
    table.add(waits, key="waits")
    table.prepare(waits, "waits")
    table.producer("empty")
    assert listed(table) == ["empty", "old", "waits", "young"]
    assert listed(table, states=frozenset({"Ongoing"})) == ["old", "waits", "young"]
    assert listed(table, states=frozenset({PREPARED})) == ["waits"]
    assert listed(table, states=frozenset({"Empty", "NoSuchState"})) == ["empty"]
    assert listed(table, producer_ids=frozenset({old.producer_id})) == ["old"]
    assert listed(table, longer_than_ms=4_000) == ["old"]


def test_a_transaction_is_described_or_not_known(table: TransactionTable) -> None:
    table.begin()
    (reply,) = table.machine.describe(table.now_ms, 1, ID).replies
    assert reply.response is table.txn
    with pytest.raises(TransactionalIdNotFound):
        table.machine.describe(table.now_ms, 1, "another")


def test_unknown_timers_and_changes_are_refused(table: TransactionTable) -> None:
    with pytest.raises(ValueError, match="timer"):
        table.machine.on_timer(0, ("tea",))
    with pytest.raises(ValueError, match="change"):
        TransactionMachine(table.config).apply(object())


def test_preparing_is_for_two_phase_transactions(table: TransactionTable) -> None:
    producer = table.begin()
    with pytest.raises(InvalidTxnState):
        table.prepare(producer)
