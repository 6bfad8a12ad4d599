import struct
import uuid
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client import record_columns
from ottla.client.consumer.fetching.read_committed import visible_batches
from ottla.client.consumer.fetching.record import ConsumerRecord, Decoder
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CorruptMessage, InvalidRecord, InvalidRequest
from ottla.protocol.fetch_client import (
    FetchPartitionRequest,
    FetchSettings,
    Topic,
    decode_fetch_response,
    encode_fetch_request,
)
from ottla.protocol.fetch_codec import (
    FetchPartitionResult,
    FetchTopicResult,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.protocol.hot_path import Leader, NodeEndpoint
from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.records import Record, decode_records, encode_batch
from ottla.wire.fetch_session import FetchPosition, FetchSession

ID = uuid.UUID(int=7)
ORDERS = TopicPartition("orders", 0)
VERSIONS = range(4, 18)


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_say_to_the_broker_what_was_meant(version):
    topics = {
        Topic("orders", ID): {0: FetchPartitionRequest(5, 3, 1000), 7: FetchPartitionRequest(2**40, -1, 9)}
    }
    body = encode_fetch_request(
        version, FetchSettings(500, 1, 9999, 1, "here"), (11, 4), topics, {Topic("old", ID): [1, 2]}
    )
    request = decode_fetch_request(memoryview(body), 0, version)
    assert (request.replica_id, request.max_wait_ms, request.min_bytes) == (-1, 500, 1)
    assert (request.max_bytes, request.isolation_level) == (9999, 1)
    (topic,) = request.topics
    assert (topic.name, topic.topic_id) == (("orders", None) if version < 13 else (None, ID))
    assert [(each.partition, each.fetch_offset, each.max_bytes) for each in topic.partitions] == [
        (0, 5, 1000),
        (7, 2**40, 9),
    ]
    assert topic.partitions[0].current_leader_epoch == (3 if version >= 9 else -1)
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (11, 4)
        assert request.forgotten[0].partitions == (1, 2)
    if version >= 11:
        assert request.rack_id == "here"


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_of_the_broker_are_understood(version):
    result = FetchPartitionResult(
        3, 6, 100, 90, 10, b"records", [(5, 50), (6, 60)], 2, current_leader=Leader(8, 9)
    )
    pieces = encode_fetch_response(
        version,
        1,
        77,
        0,
        12,
        [FetchTopicResult("orders", ID, [result, FetchPartitionResult(4)])],
        [NodeEndpoint(8, "host", 9092, "rack")],
    )
    frame = b"".join(pieces)
    reply = decode_fetch_response(memoryview(frame), 9 if version >= 12 else 8, version)
    assert (reply.throttle_ms, reply.session_id) == (77, 12 if version >= 7 else 0)
    ((name, topic_id, (first, second)),) = reply.topics
    assert (name, topic_id) == (("orders", None) if version < 13 else (None, ID))
    assert first[:4] == (3, 6, 100, 90)
    assert (bytes(first.records), first.aborted) == (b"records", ((5, 50), (6, 60)))
    assert (second.partition, second.aborted, bytes(second.records)) == (4, (), b"")
    assert first.preferred_replica == (2 if version >= 11 else -1)
    assert first.current_leader == (Leader(8, 9) if version >= 12 else None)
    assert reply.endpoints == ([NodeEndpoint(8, "host", 9092, "rack")] if version >= 16 else [])


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_an_answer_that_is_cut_off_anywhere_is_refused(version):
    result = FetchPartitionResult(3, 0, 1, 1, 0, b"records", [(5, 50)])
    frame = b"".join(encode_fetch_response(version, 1, 0, 0, 0, [FetchTopicResult("orders", ID, [result])]))
    start = 9 if version >= 12 else 8
    for end in range(start, len(frame)):
        with pytest.raises(InvalidRequest):
            decode_fetch_response(memoryview(frame[:end]), start, version)


def wanted(**offsets):
    return {
        TopicPartition(name, 0): FetchPosition(Topic(name, ID), 0, FetchPartitionRequest(offset, 0, 1))
        for name, offset in offsets.items()
    }


def test_a_session_sends_only_what_has_changed():
    session = FetchSession()
    first = session.prepare(wanted(a=1, b=2), 13)
    assert first.session == (0, 0)
    assert {topic.name for topic in first.topics} == {"a", "b"}
    session.succeeded(99)
    second = session.prepare(wanted(a=1, b=5), 13)
    assert (second.session, {topic.name for topic in second.topics}, second.forgotten) == ((99, 1), {"b"}, {})
    session.succeeded(99)
    third = session.prepare(wanted(a=1, c=0), 13)
    assert third.session == (99, 2)
    assert {topic.name for topic in third.topics} == {"c"}
    assert {topic.name for topic in third.forgotten} == {"b"}


def test_a_session_that_is_lost_begins_anew_and_names_the_old_one():
    session = FetchSession()
    session.prepare(wanted(a=1), 13)
    session.succeeded(99)
    session.reset()
    again = session.prepare(wanted(a=1), 13)
    assert (again.session, len(again.topics)) == ((99, 0), 1)


def test_a_broker_without_sessions_is_reported_everything_every_time():
    session = FetchSession()
    for _ in range(2):
        sent = session.prepare(wanted(a=1), 13)
        assert (sent.session, len(sent.topics)) == ((0, 0), 1)
        session.succeeded(0)


def test_a_topic_with_another_id_is_forgotten_and_asked_for():
    session = FetchSession()
    session.prepare(wanted(a=1), 13)
    session.succeeded(99)
    other = {
        TopicPartition("a", 0): FetchPosition(Topic("a", uuid.UUID(int=8)), 0, FetchPartitionRequest(1, 0, 1))
    }
    sent = session.prepare(other, 13)
    assert [topic.topic_id for topic in sent.topics] == [uuid.UUID(int=8)]
    assert [topic.topic_id for topic in sent.forgotten] == [ID]


def data(base, producer=-1, transactional=True, count=2):
    return with_header(
        encode_batch(
            [Record(base + n, 0, None, b"%d" % (base + n)) for n in range(count)],
            base_offset=base,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            transactional=producer >= 0 and transactional,
        )
    )


def marker(offset, producer, commit):
    key = struct.pack(">hh", 0, int(commit))
    return with_header(
        encode_batch(
            [Record(offset, 0, key, b"\0\0\0\0\0\0")],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )


def with_header(batch):
    return decode_header(batch), memoryview(batch)


def seen(batches, aborted=(), position=0):
    return [header.base_offset for header, _ in visible_batches(ORDERS, batches, position, aborted)]


def test_markers_are_never_seen_and_without_a_list_everything_else_is():
    assert seen([data(0, 5), marker(2, 5, False), data(3)]) == [0, 3]


def test_batches_of_aborted_transactions_are_hidden_until_their_marker():
    batches = [
        data(0, 5),
        data(2, 6),
        data(4),
        marker(6, 5, False),
        data(7, 5),
        marker(9, 5, True),
        marker(10, 6, True),
    ]
    assert seen(batches, [(5, 0)]) == [2, 4, 7]


def test_the_same_producer_may_abort_twice():
    batches = [
        data(0, 5),
        marker(2, 5, False),
        data(3, 5),
        marker(5, 5, False),
        data(6, 5),
        marker(8, 5, True),
    ]
    assert seen(batches, [(5, 3), (5, 0)]) == [6]


def test_a_transaction_that_began_before_the_fetch_is_hidden_too():
    assert seen([data(4, 5), marker(6, 5, False)], [(5, 0)], position=5) == []


def test_batches_before_the_position_are_left_out():
    assert seen([data(0), data(2), data(4)], position=3) == [2, 4]


def test_damage_is_reported_with_its_place():
    header, batch = data(4)
    broken = bytearray(batch)
    broken[-1] ^= 1
    with pytest.raises(CorruptMessage, match="orders-0 at offset 4: CRC32C"):
        seen([(header, memoryview(broken))])


texts = st.none() | st.binary(max_size=80)
records = st.lists(
    st.tuples(
        st.integers(0, 2**40),
        texts,
        texts,
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=30,
)


def make_batches(groups, codec, append_time):
    batches, base = [], 0
    for group in groups:
        found = [Record(base + n, *each) for n, each in enumerate(group)]
        batches.append(
            with_header(
                encode_batch(
                    found, base_offset=base, codec=codec, leader_epoch=base % 7, log_append_time=append_time
                )
            )
        )
        base += len(group)
    return batches, base


@settings(max_examples=25, deadline=None)
@given(st.lists(records, min_size=1, max_size=4), st.integers(0, 4), st.booleans(), st.data())
def test_all_ways_to_decode_give_the_same_records(groups, codec, append_time, choice):
    batches, end = make_batches(groups, codec, append_time)
    not_before = choice.draw(st.integers(0, end))
    plain = [
        ConsumerRecord("orders", 0, *record[:2], int(append_time), *record[2:], header.leader_epoch)
        for header, batch in batches
        for record in decode_records(batch)
        if record.offset >= not_before
    ]
    decoder = Decoder()
    assert decoder._together(record_columns, ORDERS, batches, not_before) == plain
    assert decoder._in_a_row(ORDERS, batches, not_before) == plain
    assert decoder.decode(ORDERS, batches, not_before) == plain
    one_by_one = [each for batch in batches for each in decoder.one_by_one(ORDERS, batch, not_before)]
    assert one_by_one == plain


@settings(max_examples=80, deadline=None)
@given(records, st.data())
def test_all_ways_to_decode_refuse_the_same_damage(group, choice):
    (header, batch), *_ = make_batches([group], 0, False)[0]
    broken = bytearray(batch)
    place = choice.draw(st.integers(61, len(broken) - 1))
    broken[place] = choice.draw(st.integers(0, 255))
    try:
        plain = [tuple(each)[:4] for each in decode_records(broken)]
    except InvalidRecord:
        plain = None
    for way in (partial(Decoder()._together, record_columns), Decoder()._in_a_row):
        try:
            found = [
                (each.offset, each.timestamp, each.key, each.value)
                for each in way(ORDERS, [(header, memoryview(broken))], 0)
            ]
        except InvalidRecord:
            found = None
        assert found == plain


def test_deserializers_are_given_bytes_and_never_none():
    batches, _ = make_batches([[(0, b"1", b"2", ()), (0, None, None, ())] * 20], 0, False)
    decoder = Decoder(int, lambda value: [value])
    for found in (
        decoder._together(record_columns, ORDERS, batches, 0),
        decoder._in_a_row(ORDERS, batches, 0),
    ):
        assert [(each.key, each.value) for each in found] == [(1, [b"2"]), (None, None)] * 20
