"""The pitfalls of PROTOCOL.md that concern this broker, by their numbers, on the wire."""

from __future__ import annotations

import datetime
import itertools
import struct
import time
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.wire import (
    Closed,
    Wire,
    batch,
    create_topic,
    fetch_fields,
    produce,
    produce_fields,
)

from ottla.protocol.records.batch import decode_header, iter_batches
from ottla.protocol.records.records import decode_records
from ottla.testing.broker_process import BrokerProcess

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 2, 3, 18, 19
DELETE_TOPICS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS = 20, 22, 23, 32
BROKER_SETTINGS = {"message.max.bytes": "100000"}
SECOND = datetime.timedelta(seconds=1)
_numbers = itertools.count()


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(broker.address) as connection:
        yield connection


@pytest.fixture
def topic(wire: Wire) -> str:
    name = f"pitfall-{next(_numbers)}"
    create_topic(wire, name)
    return name


def topic_id(wire: Wire, name: str) -> UUID:
    response = wire.call(METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    return response.topics[0].topic_id


def fetch(wire: Wire, name: str, offset: int, version: int = 12, **options):
    response = wire.call(FETCH, version, **fetch_fields(name, (0, offset), **options))
    return response.responses[0].partitions[0]


def list_offset(wire: Wire, name: str, timestamp: int, version: int = 9, **options):
    wanted = {"partition_index": 0, "timestamp": timestamp, **options}
    response = wire.call(
        LIST_OFFSETS, version, replica_id=-1, topics=[{"name": name, "partitions": [wanted]}]
    )
    return response.topics[0].partitions[0]


# Handshake


def test_pitfall_1_api_versions_of_the_future_is_answered_in_v0(wire: Wire) -> None:
    correlation_id = wire.send_raw(API_VERSIONS, 99, b"\xff\xfe whatever", flexible=True)
    response = wire.receive(API_VERSIONS, 0, correlation_id)
    assert response.error_code == ErrorCode.unsupported_version
    ranges = [(row.api_key, row.min_version, row.max_version) for row in response.api_keys]
    assert ranges == [(API_VERSIONS, 0, 4)]
    assert wire.call(API_VERSIONS, 2).error_code == 0  # the connection is still good


@pytest.mark.parametrize("version", range(5))
def test_pitfall_2_api_versions_has_response_header_v0_in_every_version(wire: Wire, version: int) -> None:
    names = {"client_software_name": "test", "client_software_version": "1"} if version >= 3 else {}
    assert wire.call(API_VERSIONS, version, **names).error_code == 0


def test_pitfall_2_a_null_client_id_is_followed_by_tagged_fields(wire: Wire) -> None:
    body = b"\x05test\x021" + b"\x00"
    correlation_id = wire.send_raw(API_VERSIONS, 3, body, flexible=True, client_id=None)
    assert wire.receive(API_VERSIONS, 3, correlation_id).error_code == 0


def test_pitfall_3_features_never_start_at_0_in_v3(wire: Wire) -> None:
    response = wire.call(API_VERSIONS, 3, client_software_name="a", client_software_version="1")
    assert all(feature.min_version > 0 for feature in response.supported_features)


@pytest.mark.parametrize("name", ["", "-x", "a b", "x-"])
def test_pitfall_3_software_names_are_checked(wire: Wire, name: str) -> None:
    response = wire.call(API_VERSIONS, 3, client_software_name=name, client_software_version="1")
    assert response.error_code == ErrorCode.invalid_request


def test_pitfall_4_lying_arrays_close_one_connection_and_nothing_else(
    broker: BrokerProcess, wire: Wire
) -> None:
    with Wire(broker.address) as liar:
        liar.send_raw(METADATA, 12, b"\xff\xff\xff\xff\x0f\x00\x00\x00", flexible=True)
        with pytest.raises(Closed):
            liar.receive_frame()
    assert wire.call(METADATA, 12, topics=[]).brokers


def test_pitfall_4_unknown_tagged_fields_are_skipped_and_too_many_refused(
    broker: BrokerProcess, wire: Wire
) -> None:
    names = b"\x05test\x021"
    correlation_id = wire.send_raw(API_VERSIONS, 3, names + b"\x01\x63\x02ab", flexible=True)
    assert wire.receive(API_VERSIONS, 3, correlation_id).error_code == 0
    with Wire(broker.address) as greedy:
        tags = b"".join(bytes([number]) + b"\x00" for number in range(100))
        greedy.send_raw(API_VERSIONS, 3, names + b"\x64" + tags, flexible=True)
        with pytest.raises(Closed):
            greedy.receive_frame()


def test_pitfall_5_produce_is_advertised_from_0_and_served_from_3(broker: BrokerProcess, wire: Wire) -> None:
    rows = {row.api_key: row for row in wire.call(API_VERSIONS, 2).api_keys}
    assert (rows[PRODUCE].min_version, rows[PRODUCE].max_version) == (0, 13)
    with Wire(broker.address) as old:
        old.send_raw(PRODUCE, 2, struct.pack(">hii", 1, 1000, 0), flexible=False)
        with pytest.raises(Closed):
            old.receive_frame()


def test_pitfall_6_acks_0_gets_no_response_and_does_not_hold_up_the_next(wire: Wire, topic: str) -> None:
    for number in range(5):
        wire.send(PRODUCE, 9, **produce_fields(topic, batch(b"%d" % number), acks=0))
    correlation_id = wire.send(METADATA, 9, topics=[{"name": topic}], allow_auto_topic_creation=False)
    wire.receive(METADATA, 9, correlation_id)
    assert list_offset(wire, topic, -1).offset == 5


def test_pitfall_6_responses_come_in_request_order(wire: Wire, topic: str) -> None:
    long_poll = wire.send(FETCH, 12, **fetch_fields(topic, (0, 0), max_wait_ms=300, min_bytes=1 << 20))
    quick = wire.send(METADATA, 9, topics=[])
    wire.receive(FETCH, 12, long_poll)
    wire.receive(METADATA, 9, quick)


def test_pitfall_7_kafka_python_infers_a_release_from_the_table(broker: BrokerProcess) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=broker.address)
    try:
        assert consumer.config["api_version"] >= (2, 5)
    finally:
        consumer.close()


def test_pitfall_8_transactions_are_advertised_and_need_an_id(wire: Wire, topic: str) -> None:
    response = wire.call(API_VERSIONS, 4, client_software_name="a", client_software_version="1")
    versions = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert versions["transaction.version"] == 2
    records = batch(b"x", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    assert produce(wire, topic, records).error_code == ErrorCode.transactional_id_authorization_failed


# Metadata


def test_pitfall_9_null_means_all_topics_and_empty_none(wire: Wire, topic: str) -> None:
    assert wire.call(METADATA, 9, topics=[]).topics == ()
    assert topic in {each.name for each in wire.call(METADATA, 9, topics=None).topics}
    assert topic in {each.name for each in wire.call(METADATA, 0, topics=[]).topics}


@pytest.mark.parametrize("allowed", [False, True])
def test_pitfall_9_auto_creation_is_the_clients_choice(wire: Wire, allowed: bool) -> None:
    name = f"perhaps-{next(_numbers)}"
    response = wire.call(METADATA, 9, topics=[{"name": name}], allow_auto_topic_creation=allowed)
    expected = ErrorCode.none if allowed else ErrorCode.unknown_topic_or_partition
    assert response.topics[0].error_code == expected
    assert (name in {each.name for each in wire.call(METADATA, 9, topics=None).topics}) == allowed


@pytest.mark.parametrize("version", [10, 11])
def test_pitfall_9_look_ups_by_id_are_refused_before_v12(wire: Wire, topic: str, version: int) -> None:
    asked = {"topic_id": topic_id(wire, topic), "name": None}
    response = wire.call(METADATA, version, topics=[asked])
    assert response.topics[0].error_code == ErrorCode.invalid_request


def test_pitfall_10_topic_ids_are_real_and_can_be_looked_up(wire: Wire, topic: str) -> None:
    found = topic_id(wire, topic)
    assert found is not None
    assert found.int != 0
    response = wire.call(METADATA, 12, topics=[{"topic_id": found, "name": None}])
    assert response.topics[0].name == topic
    unknown = wire.call(METADATA, 12, topics=[{"topic_id": uuid4(), "name": None}])
    assert unknown.topics[0].error_code == ErrorCode.unknown_topic_id


def test_pitfall_11_a_recreated_topic_is_another_topic(wire: Wire, topic: str) -> None:
    old = topic_id(wire, topic)
    records = batch(b"x", producer_id=77, producer_epoch=3, base_sequence=0)
    assert produce(wire, topic, records).error_code == 0
    started = wire.call(FETCH, 16, **fetch_fields(old, (0, 0), session_epoch=0))
    assert started.session_id > 0
    wire.call(DELETE_TOPICS, 6, topics=[{"name": topic}], timeout=SECOND * 10)
    create_topic(wire, topic)
    continued = wire.call(FETCH, 16, **fetch_fields(old, session_id=started.session_id, session_epoch=1))
    assert continued.responses[0].partitions[0].error_code == ErrorCode.unknown_topic_id
    new = topic_id(wire, topic)
    assert new != old
    refused = wire.call(PRODUCE, 13, **produce_fields(old, batch(b"x"))).responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.unknown_topic_id
    # The old topic's producer state is gone: a lower epoch is accepted again.
    lower = batch(b"y", producer_id=77, producer_epoch=1, base_sequence=0)
    accepted = wire.call(PRODUCE, 13, **produce_fields(new, lower)).responses[0].partition_responses[0]
    assert (accepted.error_code, accepted.base_offset) == (0, 0)


def test_pitfall_12_an_unknown_epoch_is_minus_1(wire: Wire, topic: str) -> None:
    asked = {"partition": 0, "leader_epoch": 99}
    response = wire.call(
        OFFSET_FOR_LEADER_EPOCH, 3, replica_id=-2, topics=[{"topic": topic, "partitions": [asked]}]
    )
    found = response.topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == (-1, -1)
    assert list_offset(wire, topic, 1_800_000_000_000).leader_epoch == -1


# Log path


def test_pitfall_13_exactly_one_batch_per_partition(wire: Wire, topic: str) -> None:
    assert produce(wire, topic, batch(b"a") + batch(b"b")).error_code == ErrorCode.invalid_record
    assert produce(wire, topic, b"").error_code == ErrorCode.invalid_record
    assert list_offset(wire, topic, -1).offset == 0


def test_pitfall_13_zstd_needs_v7(wire: Wire, topic: str) -> None:
    compressed = batch(b"a" * 100, codec=4)
    assert produce(wire, topic, compressed, version=6).error_code == ErrorCode.unsupported_compression_type
    assert produce(wire, topic, compressed, version=7).error_code == 0


def test_pitfall_13_a_wrong_crc_is_corrupt(wire: Wire, topic: str) -> None:
    damaged = bytearray(batch(b"hello"))
    damaged[-1] ^= 1
    assert produce(wire, topic, bytes(damaged)).error_code == ErrorCode.corrupt_message


def test_pitfall_13_clients_may_not_write_control_batches(wire: Wire, topic: str) -> None:
    records = batch(b"x", control=True, key=b"\x00\x00\x00\x01")
    assert produce(wire, topic, records).error_code == ErrorCode.invalid_record


def test_pitfall_13_the_leader_epoch_is_overwritten(wire: Wire, topic: str) -> None:
    assert produce(wire, topic, batch(b"x", leader_epoch=1234)).error_code == 0
    stored = decode_header(fetch(wire, topic, 0).records)
    current = wire.call(METADATA, 9, topics=[{"name": topic}]).topics[0].partitions[0].leader_epoch
    assert stored.leader_epoch == current


def test_pitfall_13_a_batch_over_the_limit_is_too_large(wire: Wire, topic: str) -> None:
    assert produce(wire, topic, batch(b"x" * 100_001)).error_code == ErrorCode.message_too_large
    assert produce(wire, topic, batch(b"x" * 90_000)).error_code == 0


def test_pitfall_13_a_compacted_topic_needs_keys(wire: Wire) -> None:
    name = f"compacted-{next(_numbers)}"
    create_topic(wire, name, cleanup_policy="compact")
    assert produce(wire, name, batch(b"no key")).error_code == ErrorCode.invalid_record
    assert produce(wire, name, batch(b"value", key=b"key")).error_code == 0


def test_pitfall_14_a_duplicate_gets_its_original_offset(wire: Wire, topic: str) -> None:
    producer_id = wire.call(
        INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=SECOND
    ).producer_id

    def send(sequence: int, epoch: int = 1):
        records = batch(b"a", b"b", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        return produce(wire, topic, records)

    assert send(0).base_offset == 0
    assert send(2).base_offset == 2
    assert (send(0).error_code, send(0).base_offset) == (0, 0)
    assert send(8).error_code == ErrorCode.out_of_order_sequence_number
    assert send(0, epoch=0).error_code == ErrorCode.invalid_producer_epoch
    assert list_offset(wire, topic, -1).offset == 4


def test_pitfall_14_a_second_batch_waits_for_the_first(wire: Wire, topic: str) -> None:
    """librdkafka may send them in the wrong order, and takes the first for written when the second is."""
    producer_id = wire.call(
        INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=SECOND
    ).producer_id

    def send(value: bytes, sequence: int):
        records = batch(value, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        return produce(wire, topic, records).error_code

    assert send(b"b", 1) == ErrorCode.not_leader_or_follower
    assert [send(b"a", 0), send(b"b", 1)] == [ErrorCode.none, ErrorCode.none]


def test_pitfall_15_a_fetch_inside_a_batch_returns_the_whole_batch(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a", b"b", b"c"))
    got = fetch(wire, topic, 2)
    assert [record.value for record in decode_records(memoryview(got.records))] == [b"a", b"b", b"c"]
    assert got.preferred_read_replica == -1


def test_pitfall_15_no_records_are_empty_bytes_not_null(wire: Wire, topic: str) -> None:
    for version in (4, 11, 12):
        assert fetch(wire, topic, 0, version=version).records == b""


def test_pitfall_15_the_first_batch_comes_even_if_it_is_too_large(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"x" * 5_000))
    produce(wire, topic, batch(b"y" * 5_000))
    got = fetch(wire, topic, 0, max_bytes=10, partition_max_bytes=10)
    assert [header.base_offset for header, _ in iter_batches(got.records)] == [0]


def test_pitfall_16_an_empty_incremental_fetch_waits_and_then_says_only_what_changed(
    wire: Wire, broker: BrokerProcess, topic: str
) -> None:
    key = topic_id(wire, topic)
    session_id = wire.call(FETCH, 16, **fetch_fields(key, (0, 0), session_epoch=0)).session_id
    began = time.monotonic()
    quiet = wire.call(FETCH, 16, **fetch_fields(key, session_id=session_id, session_epoch=1, max_wait_ms=200))
    assert time.monotonic() - began >= 0.19
    assert quiet.responses == ()
    with Wire(broker.address) as other:
        waiting = wire.send(
            FETCH, 16, **fetch_fields(key, session_id=session_id, session_epoch=2, max_wait_ms=10_000)
        )
        produce(other, topic, batch(b"news"))
    woken = wire.receive(FETCH, 16, waiting)
    assert woken.responses[0].partitions[0].high_watermark == 1
    assert len(woken.responses[0].partitions[0].records) > 0


def test_pitfall_17_list_offsets_means_what_kafka_means(wire: Wire, topic: str) -> None:
    assert list_offset(wire, topic, 1_700_000_000_000).offset == -1  # nothing there, and no error
    produce(wire, topic, batch(b"a", b"b", timestamp=1_700_000_000_000))
    produce(wire, topic, batch(b"c", b"d", timestamp=1_700_000_500_000))
    assert list_offset(wire, topic, -1).offset == 4
    assert list_offset(wire, topic, -1, version=1).offset == 4
    assert list_offset(wire, topic, -2).offset == 0
    latest = list_offset(wire, topic, -3)
    assert (latest.offset, latest.timestamp) == (3, 1_700_000_500_001)
    assert list_offset(wire, topic, -4).offset == 0
    assert list_offset(wire, topic, -5).offset == -1
    found = list_offset(wire, topic, 1_700_000_000_001)
    assert (found.offset, found.timestamp) == (1, 1_700_000_000_001)
    assert list_offset(wire, topic, 1_700_000_000_002).offset == 2
    after_the_end = list_offset(wire, topic, 1_800_000_000_000)
    assert (after_the_end.offset, after_the_end.error_code) == (-1, 0)
    current = wire.call(METADATA, 9, topics=[{"name": topic}]).topics[0].partitions[0].leader_epoch
    assert found.leader_epoch == current
    assert list_offset(wire, topic, -3, version=6).error_code == ErrorCode.unsupported_version


def test_pitfall_18_only_a_leader_epoch_that_is_given_fences(wire: Wire, topic: str) -> None:
    current = wire.call(METADATA, 9, topics=[{"name": topic}]).topics[0].partitions[0].leader_epoch
    assert fetch(wire, topic, 0, current_leader_epoch=-1).error_code == 0
    assert fetch(wire, topic, 0, current_leader_epoch=current).error_code == 0
    newer = fetch(wire, topic, 0, current_leader_epoch=current + 1)
    assert newer.error_code == ErrorCode.unknown_leader_epoch
    assert fetch(wire, topic, 0, replica_id=-2).error_code == 0


def test_pitfall_25_describe_configs_lists_every_config_with_its_source_and_type(
    wire: Wire, topic: str
) -> None:
    asked = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    response = wire.call(
        DESCRIBE_CONFIGS, 3, resources=[asked], include_synonyms=True, include_documentation=True
    )
    configs = {each.name: each for each in response.results[0].configs}
    assert {"retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes"} <= configs.keys()
    assert configs["retention.ms"].config_type == 5
    assert configs["max.message.bytes"].config_source == 4  # from the broker's own setting
    assert all(each.documentation for each in configs.values())


def test_pitfall_25_create_topics_answers_every_topic_asked_for(wire: Wire, topic: str) -> None:
    fresh = f"fresh-{next(_numbers)}"
    names = [topic, "bad name", fresh]
    wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    response = wire.call(CREATE_TOPICS, 7, topics=wanted, timeout=SECOND * 10, validate_only=True)
    codes = {each.name: each.error_code for each in response.topics}
    assert codes == {
        topic: ErrorCode.topic_already_exists,
        "bad name": ErrorCode.invalid_topic_exception,
        fresh: ErrorCode.none,
    }
    assert fresh not in {each.name for each in wire.call(METADATA, 9, topics=None).topics}
