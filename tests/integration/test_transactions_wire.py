"""Transactions byte by byte, in both generations of the protocol: steps left out, repeated, out of order."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from tests.integration.clients import Place, wait_until
from tests.integration.transaction_stage import BROKER_SETTINGS
from tests.integration.wire import Wire, produce
from tests.integration.wire_partition import (
    CONTROL,
    TRANSACTIONAL,
    batches,
    end_offset,
    fetch,
    plain,
    wait_for_markers,
)
from tests.integration.wire_stage import (
    OK,
    NewProducer,
    classic,
    group,
    modern,
    new_producer,
    place,
    producer,
    wire,
)
from tests.integration.wire_transactions import CLASSIC, WireProducer, fetch_offsets

__all__ = ["BROKER_SETTINGS", "classic", "group", "modern", "new_producer", "place", "producer", "wire"]


# The log


def test_a_transaction_ends_with_a_marker_that_says_how(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    epochs = []
    for number, commit in enumerate((True, False), start=1):
        epochs.append(producer.epoch)
        producer.write(place, b"%d" % number)
        producer.finish(commit)
        wait_for_markers(wire, place, number)
    first, committed, second, aborted = batches(wire, place)
    for data, marker, epoch, kind in ((first, committed, epochs[0], 1), (second, aborted, epochs[1], 0)):
        assert data[:3] == (TRANSACTIONAL, producer.producer_id, epoch)
        # With transaction.version=2 the marker already has the epoch of the next transaction.
        assert marker[:3] == (TRANSACTIONAL | CONTROL, producer.producer_id, epoch + producer.is_v2)
        (record,) = marker.records
        assert bytes(record.key) == b"\0\0\0" + bytes([kind])
        assert bytes(record.value)[:2] == b"\0\0"
    assert epochs[1] == epochs[0] + producer.is_v2


def test_a_fetch_lists_the_aborted_transactions_that_it_passes(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    for number, commit in enumerate((False, True, False), start=1):
        producer.write(place, b"%d" % number)
        producer.finish(commit)
        wait_for_markers(wire, place, number)
    answer = fetch(wire, place)
    assert (answer.high_watermark, answer.last_stable_offset) == (6, 6)
    aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]
    assert sorted(aborted) == [(producer.producer_id, 0), (producer.producer_id, 4)]
    later = fetch(wire, place, offset=2)
    assert [(each.first_offset) for each in later.aborted_transactions] == [4]
    assert not fetch(wire, place, isolation_level=0).aborted_transactions


def test_the_last_stable_offset_is_the_first_one_of_the_oldest_open_transaction(
    producer: WireProducer, new_producer: NewProducer, wire: Wire, place: Place
) -> None:
    other = new_producer(producer.versions)
    produce(wire, place[0], plain(b"plain"))
    producer.write(place, b"open")
    other.write(place, b"open too")
    produce(wire, place[0], plain(b"plain"))
    assert (end_offset(wire, place, 1), end_offset(wire, place, 0)) == (1, 4)
    other.finish()
    wait_for_markers(wire, place, 1)
    assert (end_offset(wire, place, 1), end_offset(wire, place, 0)) == (1, 5)
    assert fetch(wire, place).last_stable_offset == 1
    producer.finish()
    wait_for_markers(wire, place, 2)
    wait_until(lambda: end_offset(wire, place, 1) == 6, "the last stable offset")


def test_a_client_cannot_write_a_marker(producer: WireProducer, wire: Wire, place: Place) -> None:
    producer.write(place, b"open")
    marker = {"key": b"\0\0\0\1", "control": True, "base_sequence": -1}
    forged = producer.produce(place, b"\0\0\0\0\0\0", **marker)
    assert forged.error_code == ErrorCode.invalid_record
    producer.finish()
    assert len(wait_for_markers(wire, place, 1)) == 1


# Steps left out


def not_in_the_transaction(producer: WireProducer) -> ErrorCode:
    """Return what a producer is told whose batch has no place in its transaction."""
    knows_how_to_abort = producer.versions.produce >= CLASSIC.produce
    return ErrorCode.transaction_abortable if knows_how_to_abort else ErrorCode.invalid_txn_state


def test_a_batch_for_a_partition_that_was_not_added_is_refused(
    classic: WireProducer, wire: Wire, place: Place
) -> None:
    other = (place[0], 1)
    assert classic.add(other) == [OK]
    assert classic.produce(place, b"not added").error_code == not_in_the_transaction(classic)
    assert end_offset(wire, place, 0) == 0
    classic.sequences.clear()
    classic.write(other, b"added")
    classic.finish()
    assert len(wait_for_markers(wire, other, 1)) == 1
    assert end_offset(wire, place, 0) == 0


def test_offsets_of_a_group_that_was_not_added_are_refused(
    classic: WireProducer, wire: Wire, place: Place, group: str
) -> None:
    assert classic.add(place) == [OK]
    assert classic.commit_offsets(group, {place: 5}) == [ErrorCode.invalid_txn_state]
    assert fetch_offsets(wire, group, require_stable=True) == {}


def test_a_late_batch_of_a_finished_transaction_is_refused(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    producer.write(place, b"in time")
    epoch = producer.epoch
    producer.finish()
    wait_for_markers(wire, place, 1)
    late = producer.produce(place, b"late", producer_epoch=epoch, base_sequence=1)
    if producer.is_v2:
        assert late.error_code == ErrorCode.invalid_producer_epoch
    else:
        assert late.error_code == not_in_the_transaction(producer)
    assert end_offset(wire, place, 0) == 2


def test_a_plain_batch_of_a_producer_in_a_transaction_is_refused(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    producer.write(place, b"transactional")
    same = plain(b"plain", producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=1)
    assert produce(wire, place[0], same, acks=-1).error_code == ErrorCode.invalid_txn_state
    assert end_offset(wire, place, 0) == 1


def test_a_transactional_batch_in_a_request_without_a_transactional_id_is_refused(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    who = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": 0}
    refused = produce(wire, place[0], plain(b"whose?", transactional=True, **who), acks=-1)
    assert refused.error_code == ErrorCode.transactional_id_authorization_failed
    assert end_offset(wire, place, 0) == 0


# Steps repeated


def test_an_end_may_be_repeated_but_not_turned_around(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    for number, commit in enumerate((True, False), start=1):
        producer.write(place, b"x")
        epoch = producer.epoch
        producer.finish(commit)
        wait_for_markers(wire, place, number)
        again = {"producer_epoch": epoch}
        bumped = producer.epoch
        wait_until(lambda: producer.end(commit, **again) != ErrorCode.concurrent_transactions, "the end")  # noqa: B023
        assert producer.end(commit, **again) == OK
        assert producer.epoch == bumped
        assert producer.end(not commit, **again) == ErrorCode.invalid_txn_state
        if not producer.is_v2:
            producer.sequences.clear()
            producer.sequences[place] = number
    assert len(wait_for_markers(wire, place, 2)) == 2


def test_a_repeated_batch_is_answered_with_its_offset(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    producer.write(place, b"a", b"b")
    producer.write(place, b"c")
    again = producer.produce(place, b"a", b"b", base_sequence=0)
    assert (again.error_code, again.base_offset) == (OK, 0)
    producer.finish()
    assert len(wait_for_markers(wire, place, 1)) == 1
    assert end_offset(wire, place, 1) == 4


def test_a_partition_and_a_group_may_be_added_again(
    classic: WireProducer, wire: Wire, place: Place, group: str
) -> None:
    for _ in range(3):
        assert classic.add(place, (place[0], 1)) == [OK, OK]
        assert classic.add_offsets(group) == OK
        assert classic.commit_offsets(group, {place: 7}) == [OK]
    classic.finish()
    assert len(wait_for_markers(wire, place, 1)) == 1


# Ends of nothing


def test_there_is_nothing_to_end_before_the_first_transaction(classic: WireProducer) -> None:
    assert classic.end(commit=True) == ErrorCode.invalid_txn_state
    assert classic.end(commit=False) == ErrorCode.invalid_txn_state


def test_an_abort_of_nothing_is_allowed_and_takes_an_epoch_but_a_commit_is_not(modern: WireProducer) -> None:
    epoch = modern.epoch
    assert modern.end(commit=True) == ErrorCode.invalid_txn_state
    assert modern.end(commit=False) == OK
    assert modern.epoch == epoch + 1
