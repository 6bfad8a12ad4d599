"""What is about one partition only, as most requests and answers are, is written and read at once."""

import uuid
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol import fetch_client, produce_client
from ottla.protocol.errors import KafkaError
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
from ottla.protocol.frames import decode_response_header
from ottla.protocol.hot_path import Leader, NodeEndpoint
from ottla.protocol.produce_client import decode_produce_response, encode_produce_request
from ottla.protocol.produce_codec import ProducePartitionResult, ProduceTopicResult, encode_produce_response

ID = uuid.UUID(int=2**100 + 7)
NODES = [NodeEndpoint(4, "host", 9093, "rack")]
LEADER = Leader(4, 9)

produced = st.builds(
    ProducePartitionResult,
    st.integers(0, 2**31 - 1),
    st.integers(0, 100),
    st.integers(-1, 2**40),
    st.integers(-1, 2**40),
    st.integers(-1, 2**40),
    st.sampled_from([None, "", "moved"]),
    st.sampled_from([[], [(1, "x")]]),
    st.sampled_from([None, LEADER]),
)
fetched = st.builds(
    FetchPartitionResult,
    st.integers(0, 2**31 - 1),
    st.integers(0, 100),
    st.integers(-1, 2**40),
    st.integers(-1, 2**40),
    st.integers(-1, 2**40),
    st.sampled_from([b"", b"records", b"r" * 127, b"r" * 300]),
    st.sampled_from([None, [], [(5, 50)]]),
    st.integers(-1, 3),
    st.none(),
    st.sampled_from([None, LEADER]),
    st.none(),
)


def outcome(module, shortcut, decode, frame, at, version, is_short):
    """Return what a decoder makes of a frame, with its shortcut or without it."""
    with mock.patch.object(module, shortcut, getattr(module, shortcut) if is_short else lambda *_: None):
        try:
            return decode(frame, at, version)
        except KafkaError as error:
            return type(error)


def damaged(frame, where, byte):
    bad = bytearray(frame)
    bad[where % len(bad)] = byte
    return memoryview(bytes(bad))


@given(
    produced,
    st.text(max_size=140),
    st.sampled_from([[], NODES]),
    st.integers(9, 12),
    st.integers(0),
    st.data(),
)
def test_an_answer_to_a_lone_batch_says_the_same_read_at_once(result, name, nodes, version, where, data):
    topics = [ProduceTopicResult(name, None, [result])]
    frame = memoryview(encode_produce_response(version, 77, topics, 5, nodes))[4:]
    _, at = decode_response_header(frame, 0, version)
    for each in (frame, damaged(frame, where, data.draw(st.integers(0, 255))), frame[: where % len(frame)]):
        short, whole = (
            outcome(produce_client, "_lone_result", decode_produce_response, each, at, version, is_short)
            for is_short in (True, False)
        )
        assert short == whole


@given(fetched, st.sampled_from([[], NODES]), st.integers(13, 17), st.integers(0), st.data())
def test_an_answer_about_a_lone_partition_says_the_same_read_at_once(result, nodes, version, where, data):
    pieces = encode_fetch_response(version, 77, 5, 0, 9, [FetchTopicResult(None, ID, [result])], nodes)
    frame = memoryview(b"".join(pieces))[4:]
    _, at = decode_response_header(frame, 1, version)
    for each in (frame, damaged(frame, where, data.draw(st.integers(0, 255))), frame[: where % len(frame)]):
        short, whole = (
            outcome(fetch_client, "_lone_partition", decode_fetch_response, each, at, version, is_short)
            for is_short in (True, False)
        )
        assert short == whole


def test_the_usual_answers_are_read_at_once():
    stored = [ProduceTopicResult("orders", None, [ProducePartitionResult(0, 0, 7, -1, 0)])]
    frame = memoryview(encode_produce_response(12, 77, stored, 0, []))[4:]
    assert produce_client._lone_result(frame, 5) is not None
    some = [FetchTopicResult(None, ID, [FetchPartitionResult(0, 0, 8, 8, 0, b"records")])]
    frame = memoryview(b"".join(encode_fetch_response(17, 77, 0, 0, 9, some)))[4:]
    assert fetch_client._lone_partition(frame, 5) is not None


@pytest.mark.parametrize("version", [15, 16, 17])
@pytest.mark.parametrize("rack", ["", "here"])
def test_a_fetch_of_a_lone_partition_asks_for_the_same_as_one_among_others(version, rack):
    settings, asked = FetchSettings(500, 1, 9999, 1, rack), FetchPartitionRequest(2**40, 3, 1000)
    lone = encode_fetch_request(version, settings, (11, 4), {Topic("orders", ID): {7: asked}}, {})
    both = {Topic("orders", ID): {7: asked}, Topic("more", uuid.UUID(int=1)): {0: asked}}
    request, beside = (
        decode_fetch_request(memoryview(body), 0, version)
        for body in (lone, encode_fetch_request(version, settings, (11, 4), both, {}))
    )
    assert request.topics == beside.topics[:1]
    assert request._replace(topics=()) == beside._replace(topics=())


@pytest.mark.parametrize("version", [9, 12])
@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_a_lone_batch_goes_out_in_the_same_bytes_as_one_among_others(version, transactional_id):
    batch = b"q" * 300
    lone = b"".join(encode_produce_request(version, transactional_id, -1, 30_000, {"a": [(5, batch)]}))
    twice = b"".join(
        encode_produce_request(version, transactional_id, -1, 30_000, {"a": [(5, batch), (5, batch)]})
    )
    tail = len(batch) + 3  # with the tagged fields of partition, topic and request
    part = twice[twice.index(b"\x03", 8) + 1 : -2]
    assert lone[-tail - 6 : -2] == part[: len(part) // 2]
    assert lone[: -tail - 6] == twice[: twice.index(b"\x03", 8)] + b"\x02"
