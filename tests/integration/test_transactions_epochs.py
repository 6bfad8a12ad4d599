"""Who may speak for a transactional id, byte by byte; and what the tools tell about it."""

from __future__ import annotations

import datetime
from typing import Any

from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, Place, wait_until
from tests.integration.transaction_stage import BROKER_SETTINGS
from tests.integration.wire import Wire
from tests.integration.wire_groups import stable_group
from tests.integration.wire_partition import CONTROL, batches, end_offset, wait_for_markers
from tests.integration.wire_stage import (
    OK,
    classic,
    group,
    modern,
    new_name,
    new_producer,
    place,
    producer,
    wire,
)
from tests.integration.wire_transactions import OLDEST, WireProducer, fetch_offsets

from ottla.protocol.api_keys import ApiKey

__all__ = ["BROKER_SETTINGS", "classic", "group", "modern", "new_producer", "place", "producer", "wire"]


# Who is who


def test_the_coordinator_knows_its_producers(producer: WireProducer, place: Place) -> None:
    epoch = producer.epoch
    wrong_id = {"producer_id": producer.producer_id + 1_000}
    old = {"producer_epoch": epoch - 1}
    assert producer.end(**wrong_id) == ErrorCode.invalid_producer_id_mapping
    assert producer.add_offsets("group", **wrong_id) == ErrorCode.invalid_producer_id_mapping
    fenced = ErrorCode.producer_fenced
    if producer.versions is OLDEST:
        fenced = ErrorCode.invalid_producer_epoch
    assert producer.end(**old) == fenced
    assert producer.add_offsets("group", **old) == fenced


def test_a_producer_that_knows_its_epoch_may_ask_for_the_next_one_and_an_old_one_may_not(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    producer.write(place, b"dropped")
    who = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    wait_until(lambda: producer.init(**who).error_code == OK, "the next epoch")
    assert producer.producer_id == who["producer_id"]
    assert producer.epoch > who["producer_epoch"]
    with WireProducer(producer.address, producer.transactional_id) as other:
        other.start()
    wait_until(
        lambda: producer.init(**who).error_code != ErrorCode.concurrent_transactions,
        "the abort to be complete",
    )
    assert producer.init(**who).error_code == ErrorCode.producer_fenced
    wait_for_markers(wire, place, 1)


def test_unknown_partitions_are_not_added_and_neither_are_the_others(
    classic: WireProducer, place: Place
) -> None:
    missing = (place[0] + ".missing", 0)
    codes = set(classic.add(place, missing))
    assert codes == {ErrorCode.unknown_topic_or_partition, ErrorCode.operation_not_attempted}


def test_offsets_of_a_stale_member_are_refused(
    producer: WireProducer, wire: Wire, place: Place, broker: HasAddress, group: str
) -> None:
    if producer.versions is OLDEST:
        return  # It cannot say who it is.
    with stable_group(broker.address, group, place[0]) as member:
        if not producer.is_v2:
            assert producer.add_offsets(group) == OK
        who = {"generation_id": member.generation, "member_id": member.member_id}
        assert producer.commit_offsets(group, {place: 3}, **who) == [OK]
        stale = {**who, "generation_id": member.generation - 1}
        assert producer.commit_offsets(group, {place: 4}, **stale) == [ErrorCode.illegal_generation]
        stranger = {**who, "member_id": "stranger"}
        assert producer.commit_offsets(group, {place: 4}, **stranger) == [ErrorCode.unknown_member_id]
        producer.finish()
        offsets = {place: 3}
        wait_until(lambda: fetch_offsets(wire, group, require_stable=True) == offsets, "the offset")


def test_an_id_must_not_be_empty_and_a_timeout_must_be_positive(broker: HasAddress) -> None:
    with WireProducer(broker.address, new_name()) as producer:
        wait_until(lambda: producer.find() == OK, "the coordinator")
        assert producer.init(transactional_id="").error_code == ErrorCode.invalid_request
        assert producer.init(timeout_ms=0).error_code == ErrorCode.invalid_transaction_timeout
        assert producer.init(timeout_ms=900_001).error_code == ErrorCode.invalid_transaction_timeout


# The second generation


def test_a_late_end_of_the_previous_transaction_cannot_touch_the_next_one(
    modern: WireProducer, wire: Wire, place: Place
) -> None:
    modern.write(place, b"first")
    late = modern.end_fields(commit=False)
    modern.finish(commit=False)
    wait_for_markers(wire, place, 1)
    modern.write(place, b"second")
    answer = wire.call(ApiKey.END_TXN, 5, **late)
    assert answer.error_code == ErrorCode.producer_fenced
    modern.write(place, b"third")
    modern.finish()
    wait_for_markers(wire, place, 2)
    assert end_offset(wire, place, 1) == 5


def test_every_transaction_has_an_epoch_and_sequences_of_its_own(
    modern: WireProducer, wire: Wire, place: Place
) -> None:
    first = modern.epoch
    for number in range(3):
        assert modern.epoch == first + number
        modern.write(place, b"a")
        modern.write(place, b"b")
        modern.finish()
        wait_for_markers(wire, place, number + 1)
    data = [each for each in batches(wire, place) if not each.attributes & CONTROL]
    assert [each.producer_epoch - first for each in data] == [0, 0, 1, 1, 2, 2]


# The tools


def test_transactions_and_their_producers_can_be_listed_and_described(
    producer: WireProducer, wire: Wire, place: Place
) -> None:
    producer.write(place, b"open")
    listed = wire.call(ApiKey.LIST_TRANSACTIONS, 1, state_filters=["Ongoing"], duration_filter=-1)
    mine = [each for each in listed.transaction_states if each.transactional_id == producer.transactional_id]
    assert [(each.producer_id, each.transaction_state) for each in mine] == [
        (producer.producer_id, "Ongoing")
    ]
    described = wire.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[producer.transactional_id, "?"])
    found, unknown = sorted(described.transaction_states, key=lambda each: each.error_code)
    assert unknown.error_code == ErrorCode.transactional_id_not_found
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
    assert found.transaction_state == "Ongoing"
    assert found.transaction_timeout == datetime.timedelta(minutes=1)
    assert [(each.topic, list(each.partitions)) for each in found.topics] == [(place[0], [0])]
    active = describe_producer(wire, place)
    assert (active.producer_id, active.producer_epoch) == (producer.producer_id, producer.epoch)
    assert active.current_txn_start_offset == 0
    producer.finish()
    wait_for_markers(wire, place, 1)
    assert describe_producer(wire, place).current_txn_start_offset == -1
    states = wire.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[producer.transactional_id])
    wait_until(
        lambda: states.transaction_states[0].transaction_state in ("PrepareCommit", "CompleteCommit"), ""
    )


def describe_producer(wire: Wire, place: Place) -> Any:
    topics = [{"name": place[0], "partition_indexes": [place[1]]}]
    answer = wire.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)
    (active,) = answer.topics[0].partitions[0].active_producers
    return active
