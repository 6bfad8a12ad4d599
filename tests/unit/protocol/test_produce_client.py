import pytest

from ottla.protocol.errors import InvalidRequest, UnsupportedVersion
from ottla.protocol.frames import decode_response_header
from ottla.protocol.hot_path import Leader, NodeEndpoint
from ottla.protocol.produce_client import LAST_VERSION, decode_produce_response, encode_produce_request
from ottla.protocol.produce_codec import (
    ProducePartitionResult,
    ProduceTopicResult,
    decode_produce_request,
    encode_produce_response,
)
from ottla.protocol.schema.messages import request_decoder

VERSIONS = range(3, LAST_VERSION + 1)
TOPICS = {"a": [(0, b"xyz"), (5, b"q" * 300)], "bcd": [(1, b"")]}
GOOD = ProducePartitionResult(4, 0, 10, 11, 12)
BAD = ProducePartitionResult(3, 6, -1, -1, -1, "moved", [(1, "x"), (2, None)], Leader(4, 9))
NODES = [NodeEndpoint(4, "host", 9093, "rack"), NodeEndpoint(5, "other", 9094, None)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_the_broker_reads_what_the_client_writes(version, transactional_id):
    body = b"".join(encode_produce_request(version, transactional_id, -1, 30_000, TOPICS))
    request = decode_produce_request(memoryview(body), 0, version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transactional_id, -1, 30_000)
    assert {
        each.name: [(index, bytes(data)) for index, data in each.partitions] for each in request.topics
    } == TOPICS
    assert (
        request_decoder(0, version, version)(body, 0).acks == -1
    )  # as kio's schema has it, to the last byte


def test_batches_are_passed_on_and_not_copied():
    batch = bytearray(b"batch")
    assert any(piece is batch for piece in encode_produce_request(9, None, 1, 1, {"a": [(0, batch)]}))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_client_reads_what_the_broker_writes(version):
    topics = [ProduceTopicResult("a", None, [BAD, GOOD]), ProduceTopicResult("b", None, [GOOD])]
    frame = memoryview(encode_produce_response(version, 77, topics, 5, NODES))[4:]
    _, at = decode_response_header(frame, 0, version)
    results, nodes = decode_produce_response(frame, at, version)
    assert list(results) == [("a", 3), ("a", 4), ("b", 4)]
    good, bad = results["b", 4], results["a", 3]
    assert (good.error_code, good.base_offset, good.log_append_time_ms) == (0, 10, 11)
    assert good.log_start_offset == (12 if version >= 5 else -1)
    assert bad.error_message == ("moved" if version >= 8 else None)
    assert list(bad.record_errors) == ([(1, "x"), (2, None)] if version >= 8 else [])
    assert bad.current_leader == (Leader(4, 9) if version >= 10 else None)
    assert nodes == (NODES if version >= 10 else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_is_cut_off_or_lies_is_refused(version):
    frame = memoryview(
        encode_produce_response(version, 77, [ProduceTopicResult("a", None, [BAD])], 5, NODES)
    )[4:]
    _, at = decode_response_header(frame, 0, version)
    shortest = len(frame) - 4 if version < 9 else len(frame)
    for end in range(at, shortest):
        with pytest.raises(InvalidRequest):
            decode_produce_response(frame[:end], at, version)


@pytest.mark.parametrize("version", [2, 13])
def test_other_versions_are_not_spoken(version):
    with pytest.raises(UnsupportedVersion):
        encode_produce_request(version, None, 1, 1, {})
