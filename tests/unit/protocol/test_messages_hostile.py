"""Messages that lie: refused with InvalidRequest, soon, and without building what they promise."""

from __future__ import annotations

import struct
import tracemalloc
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.protocol.entities import EVERY_API, kio_bytes, random_entity, versions_of

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest, KafkaError
from ottla.protocol.primitives import encode_uvarint
from ottla.protocol.schema.messages import (
    MAX_REQUEST_ELEMENTS,
    request_class,
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
)

api_keys = pytest.mark.parametrize("api_key", EVERY_API, ids=lambda key: ApiKey(key).name.lower())


def peak_bytes(action: Any, *arguments: Any) -> int:
    """Return the most memory that a refused call held at a time."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest):
            action(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@api_keys
def test_a_message_cut_off_anywhere_is_refused(api_key: int) -> None:
    random = Random(api_key)
    for version in {versions_of(api_key)[0], versions_of(api_key)[-1]}:
        raw = kio_bytes(random_entity(random, request_class(api_key, version)))
        decode = request_decoder(api_key, version, version)
        for cut in random.sample(range(len(raw)), min(len(raw), 40)):
            with pytest.raises(InvalidRequest):
                decode(raw[:cut], 0)


@api_keys
def test_bytes_after_a_message_are_ignored_as_kafka_does(api_key: int) -> None:
    version = versions_of(api_key)[-1]
    raw = kio_bytes(random_entity(Random(api_key), request_class(api_key, version)))
    decode = request_decoder(api_key, version, version)
    assert decode(raw + b"\x00\x01\x00", 0) == decode(raw, 0)


@api_keys
def test_a_damaged_message_is_read_or_refused_and_nothing_else(api_key: int) -> None:
    random = Random(api_key)
    refused = 0
    for version in {versions_of(api_key)[0], versions_of(api_key)[-1]}:
        decode = request_decoder(api_key, version, version)
        encode = request_encoder(api_key, version, version)
        for _ in range(40):
            raw = bytearray(kio_bytes(random_entity(random, request_class(api_key, version))))
            for _ in range(random.choice((1, 1, 2, 8))):
                position = random.randrange(len(raw) + 1)
                raw[position : position + random.randrange(3)] = random.choice(
                    (b"\xff", b"\x00", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", random.randbytes(2))
                )
            try:
                entity = decode(raw, 0)
            except KafkaError:
                refused += 1
                continue
            # What was read is a message: it can be written again.
            assert decode(encode(entity), 0) == entity
    assert refused > 0


LYING_COUNTS = [2**31 - 1, 2**32 - 2, 2**20]


@pytest.mark.parametrize("count", LYING_COUNTS)
def test_a_lying_compact_array_length_costs_nothing(count: int) -> None:
    metadata = request_decoder(ApiKey.METADATA, 12, 13)
    raw = encode_uvarint(count + 1) + bytes(100)
    assert peak_bytes(metadata, raw, 0) < 50_000


@pytest.mark.parametrize("count", [2**31 - 1, 2**20, -2, -(2**31)])
def test_a_lying_legacy_array_length_costs_nothing(count: int) -> None:
    metadata = request_decoder(ApiKey.METADATA, 1, 13)
    raw = struct.pack(">i", count) + bytes(100)
    assert peak_bytes(metadata, raw, 0) < 50_000


def test_a_lying_array_of_numbers_costs_nothing() -> None:
    create = request_decoder(ApiKey.CREATE_TOPICS, 7, 7)
    topic = b"\x02t" + struct.pack(">ih", 1, 1) + b"\x02" + struct.pack(">i", 0) + b"\xff\xff\xff\xff\x0f"
    assert peak_bytes(create, b"\x02" + topic + bytes(50), 0) < 50_000


def test_a_large_message_of_tiny_elements_is_refused_before_it_is_built() -> None:
    delete = request_decoder(ApiKey.DELETE_TOPICS, 6, 6)
    raw = encode_uvarint(100_001) + bytes(2_000_000)
    assert peak_bytes(delete, raw, 0) < 2_200_000  # the copy of the message itself
    offsets = request_decoder(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0)
    numbers = MAX_REQUEST_ELEMENTS + 1
    raw = struct.pack(">i", 1) + b"\x02\x02t" + encode_uvarint(numbers + 1) + bytes(4 * numbers) + b"\x00\x00"
    with pytest.raises(InvalidRequest, match="too many"):
        offsets(raw, 0)


def test_as_many_numbers_as_are_allowed_are_read() -> None:
    decode = request_decoder(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0)
    numbers = MAX_REQUEST_ELEMENTS - 2
    raw = struct.pack(">i", 1) + b"\x02\x02t" + encode_uvarint(numbers + 1) + bytes(4 * numbers) + b"\x00\x00"
    request = decode(raw, 0)
    assert len(request.topics[0].partition_indexes) == numbers


def test_elements_of_nested_arrays_share_one_budget() -> None:
    decode = request_decoder(ApiKey.DELETE_RECORDS, 2, 2)
    topic = b"\x02t" + encode_uvarint(1_001) + (bytes(12) + b"\x00") * 1_000 + b"\x00"
    few = encode_uvarint(11) + topic * 10 + struct.pack(">i", 5) + b"\x00"
    assert len(decode(few, 0).topics) == 10
    many = encode_uvarint(36) + topic * 35 + struct.pack(">i", 5) + b"\x00"
    with pytest.raises(InvalidRequest, match="too many"):
        decode(many, 0)


def heartbeat(tags: bytes) -> bytes:
    return b"\x02g" + struct.pack(">i", 1) + b"\x02m" + b"\x00" + tags


def test_unknown_tagged_fields_are_skipped() -> None:
    decode = request_decoder(ApiKey.HEARTBEAT, 4, 4)
    request = decode(heartbeat(b"\x02" + b"\x00\x03abc" + b"\xff\xff\xff\xff\x0f\x00"), 0)
    assert (request.group_id, request.member_id) == ("g", "m")


@pytest.mark.parametrize(
    "tags",
    [
        b"\x41" + b"\x00\x00" * 65,
        b"\xff\xff\xff\xff\x0f",
        b"\x01\x00\xff\xff\xff\xff\x0f",
        b"\x01\x00\x05abc",
        b"\x01\x00",
        b"\x01",
    ],
)
def test_tagged_fields_that_are_too_many_or_do_not_fit_are_refused(tags: bytes) -> None:
    with pytest.raises(InvalidRequest):
        request_decoder(ApiKey.HEARTBEAT, 4, 4)(heartbeat(tags), 0)


def test_a_known_tagged_field_that_lies_about_its_size_is_refused() -> None:
    decode = request_decoder(ApiKey.FETCH, 12, 12)
    body = struct.pack(">iiiibii", -1, 1, 1, 1, 0, 0, -1) + b"\x01\x01\x01"
    assert decode(body + b"\x01\x00\x03\x03ab", 0).cluster_id == "ab"
    for tags in (b"\x01\x00\x04\x03ab?", b"\x01\x00\x02\x03ab"):
        with pytest.raises(InvalidRequest):
            decode(body + tags, 0)


@pytest.mark.parametrize(
    ("version", "raw"),
    [
        (3, b"\xff\xff" + struct.pack(">i", 1) + b"\x00\x01m" + b"\xff\xff"),
        (3, b"\xff\xfe" + struct.pack(">i", 1) + b"\x00\x01m" + b"\xff\xff"),
        (3, b"\x00\x01g" + struct.pack(">i", 1) + b"\x7f\xffm" + b"\xff\xff"),
        (4, b"\x00" + struct.pack(">i", 1) + b"\x02m" + b"\x00\x00"),
        (4, b"\x03\xc3\x28" + struct.pack(">i", 1) + b"\x02m" + b"\x00\x00"),
        (4, b"\x80\x80\x80\x80\x80\x01" + struct.pack(">i", 1) + b"\x02m" + b"\x00\x00"),
    ],
    ids=["null", "negative", "too long", "compact null", "not UTF-8", "endless varint"],
)
def test_strings_that_are_none_are_refused(version: int, raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        request_decoder(ApiKey.HEARTBEAT, version, 4)(raw, 0)


def test_a_struct_that_is_neither_there_nor_null_is_refused() -> None:
    decode = request_decoder(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
    assert decode(b"\x01" + struct.pack(">i", 9) + b"\xff\x00", 0).cursor is None
    with pytest.raises(InvalidRequest):
        decode(b"\x01" + struct.pack(">i", 9) + b"\x07\x00", 0)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), -1, 0, 86_400_000])
def test_durations_and_dates_are_clamped_to_what_python_can_hold(value: int) -> None:
    token = request_decoder(ApiKey.RENEW_DELEGATION_TOKEN, 1, 1)(struct.pack(">iq", 0, value), 0)
    longest = timedelta.max - timedelta(days=1)
    assert -longest <= token.renew_period <= longest
    renewed = response_decoder(ApiKey.RENEW_DELEGATION_TOKEN, 1, 1)(struct.pack(">hqi", 0, value, 0), 0)
    assert 1970 <= renewed.expiry_timestamp.year <= 9999
    assert response_encoder(ApiKey.RENEW_DELEGATION_TOKEN, 1, 1)(renewed)


def test_an_error_code_of_the_future_is_an_unknown_error() -> None:
    response = response_decoder(ApiKey.HEARTBEAT, 1, 4)(struct.pack(">ih", 0, 32_000), 0)
    assert response.error_code is ErrorCode.unknown_server_error
