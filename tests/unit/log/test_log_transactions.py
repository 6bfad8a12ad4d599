"""Transactions in a log: what is stable, what was aborted, and that both survive whatever happens to it."""

from __future__ import annotations

import errno
from struct import pack

import pytest
from tests.unit.log.bench import LogBench, append, idempotent, make_batch, read_batches
from tests.unit.log.transaction_bench import (
    TransactionalProducer,
    fetch_committed,
    index_entries,
    read_committed,
    stable_offset,
    truth,
)

from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.protocol.records.batch import check_crc, decode_header
from ottla.protocol.records.control import MARKER_BYTES, Marker, decode_marker, encode_marker
from ottla.protocol.records.records import Record, decode_records, encode_batch


def test_a_marker_has_kafkas_layout() -> None:
    batch = encode_marker(Marker(9, 3, False, 12), 1234)
    header = decode_header(batch)
    check_crc(batch, header)
    assert len(batch) == MARKER_BYTES
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    (record,) = decode_records(batch)
    assert (record.key, record.value) == (pack(">hh", 0, 0), pack(">hi", 0, 12))
    assert decode_marker(header, batch) == Marker(9, 3, False, 12)
    commit = encode_marker(Marker(9, 3, True, 0), 1234)
    assert decode_marker(decode_header(commit), commit) == Marker(9, 3, True, 0)


@pytest.mark.parametrize("key", [b"", pack(">h", 0), pack(">hh", 0, 2)])
def test_other_control_batches_are_no_markers(key: bytes) -> None:
    batch = encode_batch(
        [Record(0, 1, key, b"")], producer_id=1, producer_epoch=0, transactional=True, control=True
    )
    assert decode_marker(decode_header(batch), batch) is None


def test_nothing_is_stable_from_the_first_open_transaction_on() -> None:
    log = LogBench().log
    first, second = TransactionalProducer(1), TransactionalProducer(2)
    append(log, make_batch("plain"))
    first.write(log, "a")
    second.write(log, "b")
    append(log, make_batch("behind"))
    assert stable_offset(log) == 1
    second.end(log, commit=True)
    assert stable_offset(log) == 1
    first.end(log, commit=False)
    assert stable_offset(log) == log.log_end_offset == 6
    assert read_committed(log) == {0: "plain", 2: "b", 3: "behind"}


def test_a_marker_counts_once_it_is_below_the_high_watermark() -> None:
    log = LogBench().log
    producer = TransactionalProducer(1)
    producer.write(log, "a", "b")
    marker = producer.end(log, commit=True)
    assert marker.base_offset == 2
    assert stable_offset(log, 2) == 0
    assert stable_offset(log, 3) == 3


def test_a_marker_without_a_transaction_changes_nothing_that_readers_see() -> None:
    log = LogBench().log
    producer = TransactionalProducer(1)
    producer.end(log, commit=False)
    assert stable_offset(log) == 1
    assert index_entries(log) == []


def test_an_aborted_transaction_is_in_the_index_of_the_segment_with_its_marker() -> None:
    bench = LogBench()
    first, second = TransactionalProducer(1), TransactionalProducer(2)
    first.write(bench.log, "a")
    second.write(bench.log, "b")
    bench.log.roll()
    first.end(bench.log, commit=False)
    second.end(bench.log, commit=False)
    assert bench.names(".txnindex") == ["00000000000000000002.txnindex"]
    assert bytes(bench.contents("00000000000000000002.txnindex")) == pack(">hqqqq", 0, 1, 0, 2, 1) + pack(
        ">hqqqq", 0, 2, 1, 3, 4
    )
    assert bench.log.aborted_transactions(0, 1) == [AbortedTransaction(1, 0, 2, 1)]
    assert [each.producer_id for each in bench.log.aborted_transactions(0, 4)] == [1, 2]
    assert [each.producer_id for each in bench.log.aborted_transactions(3, 4)] == [2]
    assert bench.log.aborted_transactions(4, 9) == []


def test_an_index_of_thousands_is_searched_and_not_read() -> None:
    log = LogBench(segment_bytes=1 << 20).log
    producer = TransactionalProducer(1)
    for _ in range(1500):
        producer.write(log, "x")
        producer.end(log, commit=False)
    for number in (0, 700, 1499):
        found = log.aborted_transactions(2 * number, 2 * number + 1)
        assert [each.first_offset for each in found] == [2 * number]
    assert len(log.aborted_transactions(0, 3000)) == 1500


def test_a_fetch_in_the_middle_of_an_aborted_transaction_hears_of_it() -> None:
    log = LogBench().log
    producer = TransactionalProducer(1)
    for _ in range(20):
        producer.write(log, "aborted")
    producer.end(log, commit=False)
    append(log, make_batch("plain"))
    assert fetch_committed(log, 10, 100) == ({}, 11)
    assert read_committed(log, 10) == {21: "plain"}


# Who may write


def test_a_transactional_batch_is_refused_until_its_partition_is_verified() -> None:
    log = LogBench().log
    batch = idempotent("v", sequence=0, transactional=True)
    with pytest.raises(InvalidTxnState):
        append(log, batch)
    verification = log.verifications.begin(7, 0, 0)
    with pytest.raises(InvalidTxnState):
        append(log, batch)
    verification.confirm()
    append(log, batch)
    append(log, idempotent("v", sequence=1, transactional=True))
    assert len(log.verifications) == 0


def test_a_verification_that_a_marker_overtakes_is_worth_nothing() -> None:
    log = LogBench().log
    verification = log.verifications.begin(7, 0, 0)
    log.append_marker(Marker(7, 0, False, 0), 0, log.clock.wall_ms())
    verification.confirm()
    with pytest.raises(InvalidTxnState):
        append(log, idempotent("late", sequence=0, transactional=True))
    assert stable_offset(log) == log.log_end_offset


def test_the_verification_of_another_epoch_does_not_count() -> None:
    log = LogBench().log
    log.verifications.begin(7, 0, 0).confirm()
    with pytest.raises(InvalidTxnState):
        append(log, idempotent("v", sequence=0, epoch=1, transactional=True))
    log.verifications.begin(7, 1, 0).confirm()
    append(log, idempotent("v", sequence=0, epoch=1, transactional=True))


def test_a_second_batch_does_not_overtake_the_first_whose_verification_failed() -> None:
    log = LogBench().log
    log.verifications.begin(7, 0, 0)
    log.verifications.begin(7, 0, 1).confirm()
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, idempotent("second", sequence=1, transactional=True))
    append(log, idempotent("first", sequence=0, transactional=True))
    append(log, idempotent("second", sequence=1, transactional=True))


def test_with_an_epoch_per_transaction_the_first_batch_has_sequence_number_zero() -> None:
    log = LogBench().log
    log.verifications.begin(7, 0, 3, has_epoch_per_transaction=True).confirm()
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, idempotent("v", sequence=3, transactional=True))


def test_a_repeated_batch_needs_no_verification() -> None:
    log = LogBench().log
    producer = TransactionalProducer(7)
    producer.write(log, "v")
    producer.end(log, commit=True)
    again = append(log, idempotent("v", sequence=0, transactional=True))
    assert (again.is_duplicate, again.base_offset) == (True, 0)


def test_a_coordinator_that_was_replaced_is_fenced() -> None:
    log = LogBench().log
    producer = TransactionalProducer(7)
    producer.write(log, "v")
    producer.end(log, commit=True, coordinator_epoch=5)
    producer.write(log, "w")
    with pytest.raises(TransactionCoordinatorFenced):
        producer.end(log, commit=True, coordinator_epoch=4)
    producer.end(log, commit=True, coordinator_epoch=6)


def test_a_marker_of_an_old_epoch_is_refused() -> None:
    log = LogBench().log
    producer = TransactionalProducer(7, epoch=3)
    producer.write(log, "v")
    with pytest.raises(InvalidProducerEpoch):
        log.append_marker(Marker(7, 2, True, 0), 0, 1)


def test_with_version_two_a_late_marker_cannot_end_the_next_transaction() -> None:
    log = LogBench().log
    producer = TransactionalProducer(7)
    producer.write(log, "first")
    producer.end(log, commit=True, version=2)
    late = Marker(7, producer.epoch, True, 0, 2)
    log.append_marker(late, 0, 1)  # repeated while nothing is open: no harm
    producer.write(log, "second")
    with pytest.raises(InvalidProducerEpoch):
        log.append_marker(late, 0, 1)
    assert stable_offset(log) == 3


def test_with_version_two_a_late_batch_is_fenced_by_the_marker() -> None:
    log = LogBench().log
    producer = TransactionalProducer(7)
    producer.write(log, "first")
    producer.end(log, commit=False, version=2)
    log.verifications.begin(7, 0, 1).confirm()
    with pytest.raises(InvalidProducerEpoch):
        append(log, idempotent("late", sequence=1, epoch=0, transactional=True))


# What may happen to the files


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_open_and_aborted_transactions_are_known_again_after_a_start(how: str) -> None:
    bench = LogBench(segment_bytes=400)
    producers = [TransactionalProducer(each) for each in range(4)]
    for number in range(30):
        producer = producers[number % 4]
        producer.write(bench.log, f"v{number}")
        if number % 3 == 0:
            producer.end(bench.log, commit=number % 2 == 0)
    before = read_committed(bench.log), stable_offset(bench.log), index_entries(bench.log)
    assert len(before[2]) >= 4
    log = getattr(bench, how)()
    assert (read_committed(log), stable_offset(log), index_entries(log)) == before
    assert read_committed(log) == {
        at: value for at, value in truth(read_batches(log))[0].items() if at < stable_offset(log)
    }


@pytest.mark.parametrize("damage", ["missing", "torn", "stray entries"])
def test_an_index_that_a_crash_has_damaged_is_built_anew(damage: str) -> None:
    bench = LogBench()
    producer = TransactionalProducer(1)
    for _ in range(5):
        producer.write(bench.log, "x")
        producer.end(bench.log, commit=False)
    before = index_entries(bench.log)
    (name,) = bench.names(".txnindex")
    match damage:
        case "missing":
            bench.remove(name)
        case "torn":
            del bench.contents(name)[50:]
        case _:
            bench.contents(name)[:] = bytes(bench.contents(name)) + pack(">hqqqq", 0, 1, 10, 99, 100)
    log = bench.kill()
    assert index_entries(log) == before
    assert len(bench.contents(name)) == 5 * 34


def test_half_an_entry_is_noticed_after_a_clean_stop_too() -> None:
    bench = LogBench(segment_bytes=300)
    producer = TransactionalProducer(1)
    for _ in range(6):
        producer.write(bench.log, "x")
        producer.end(bench.log, commit=False)
    before = index_entries(bench.log)
    bench.log.close(clean=True)
    damaged = bench.names(".txnindex")[0]
    del bench.contents(damaged)[20:]
    log = bench.reopen(is_clean=True)
    assert index_entries(log) == before


@pytest.mark.parametrize("damage", ["gone", "other version", "short"])
def test_an_index_that_proves_wrong_is_built_anew_on_the_spot(damage: str) -> None:
    bench = LogBench(segment_bytes=300)
    producer = TransactionalProducer(1)
    for _ in range(6):
        producer.write(bench.log, "x")
        producer.end(bench.log, commit=False)
    log = bench.restart()
    before = index_entries(log)
    name = bench.names(".txnindex")[0]
    if damage == "gone":
        log.segments[0].close()
        bench.remove(name)
    elif damage == "short":
        bench.contents(name).clear()
    else:
        bench.contents(name)[1] = 7
    assert [each.first_offset for each in log.aborted_transactions(0, 2)] == [0]
    assert index_entries(log) == before


def test_what_is_cut_off_was_not_aborted() -> None:
    bench = LogBench(segment_bytes=300)
    producer = TransactionalProducer(1)
    ends = []
    for _ in range(6):
        producer.write(bench.log, "x")
        ends.append(producer.end(bench.log, commit=False).base_offset)
    before = index_entries(bench.log)
    bench.log.truncate_to(ends[3])
    assert index_entries(bench.log) == before[:3]
    assert stable_offset(bench.log) == ends[3] - 1
    assert index_entries(bench.kill()) == before[:3]


def test_an_index_goes_with_its_segment() -> None:
    bench = LogBench(segment_bytes=300)
    producer = TransactionalProducer(1)
    for _ in range(8):
        producer.write(bench.log, "x")
        producer.end(bench.log, commit=False)
    count = len(bench.names(".txnindex"))
    bench.log.remove_segments(bench.log.sealed[:2], "old")
    assert len(bench.names(".txnindex")) == count - 2
    assert len(bench.names(".txnindex.deleted")) == 2
    assert read_committed(bench.log) == {}
    bench.log.truncate_fully_and_start_at(100)
    assert bench.names(".txnindex") == []


def test_records_before_the_log_start_do_not_hold_readers_back() -> None:
    log = LogBench().log
    TransactionalProducer(1).write(log, "open")
    append(log, make_batch("a", "b"))
    log.delete_records_before(2)
    assert stable_offset(log) == 2


def test_an_aborted_transaction_counts_even_if_a_full_disk_refuses_its_entry() -> None:
    bench = LogBench()
    producer = TransactionalProducer(1)
    producer.write(bench.log, "x")
    check = bench.disk.check

    def full(kind: str, path: str) -> None:
        if path.endswith(".txnindex"):
            raise OSError(errno.ENOSPC, "full")
        check(kind, path)

    bench.disk.check = full  # type: ignore[method-assign]
    producer.end(bench.log, commit=False)
    assert read_committed(bench.log) == {}
    assert bench.names(".txnindex") == []
    bench.disk.check = check  # type: ignore[method-assign]
    producer.write(bench.log, "y")
    producer.end(bench.log, commit=False)
    assert [each.first_offset for each in index_entries(bench.restart())] == [0, 2]
