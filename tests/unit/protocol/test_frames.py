"""The heads of requests and responses, against kio's header classes."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.frames import (
    FIRST_FLEXIBLE_VERSION,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_frame,
    encode_request_header,
    encode_response_header,
    is_flexible,
)

EVERY_VERSION = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]


def test_every_key_of_kafka_has_a_name_and_a_first_flexible_version() -> None:
    assert [int(key) for key in ApiKey] == [*range(93), *range(10_939, 10_945)]
    assert set(FIRST_FLEXIBLE_VERSION) == set(ApiKey)
    for key, name in api_key_map.items():
        assert ApiKey(key).name == name.upper()


def test_the_flexible_versions_are_those_of_kio() -> None:
    for key, version in EVERY_VERSION:
        assert is_flexible(key, version) == load_request_schema(key, version).__flexible__, (key, version)
        assert is_flexible(key, version) == load_response_schema(key, version).__flexible__, (key, version)


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "ö" * 50])
def test_request_headers_are_read_as_kio_writes_them(client_id: str | None) -> None:
    for key, version in EVERY_VERSION:
        schema = load_request_schema(key, version).__header_schema__
        out = io.BytesIO()
        header = schema(
            request_api_key=key, request_api_version=version, correlation_id=-7, client_id=client_id
        )
        entity_writer(schema)(out, header)
        ours = RequestHeader(key, version, -7, client_id)
        assert encode_request_header(ours) == out.getvalue()
        frame = out.getvalue() + b"body"
        assert decode_request_header(memoryview(frame)) == (ours, len(frame) - 4)


def test_response_headers_are_written_as_kio_reads_them() -> None:
    for key, version in EVERY_VERSION:
        schema = load_response_schema(key, version).__header_schema__
        raw = encode_response_header(key, version, 99)
        header, size = entity_reader(schema)(raw, 0)
        assert (header.correlation_id, size) == (99, len(raw))
        assert decode_response_header(raw + b"body", key, version) == (99, len(raw))


def test_the_response_to_api_versions_has_the_old_header_in_every_version() -> None:
    for version in range(6):
        assert encode_response_header(ApiKey.API_VERSIONS, version, 3) == b"\x00\x00\x00\x03"


def test_a_null_client_id_is_still_followed_by_tagged_fields() -> None:
    frame = struct.pack(">hhih", 18, 3, 5, -1) + b"\x00" + b"body"
    assert decode_request_header(frame) == (RequestHeader(18, 3, 5, None), 11)


def test_tagged_fields_of_the_header_are_skipped() -> None:
    frame = struct.pack(">hhih", 12, 4, 5, 1) + b"c" + b"\x01\x09\x02xx" + b"body"
    assert decode_request_header(frame) == (RequestHeader(12, 4, 5, "c"), len(frame) - 4)


def test_a_version_of_the_future_still_has_a_readable_header() -> None:
    frame = struct.pack(">hhih", 18, 1_000, 5, -1) + b"\x00" + b"whatever"
    assert decode_request_header(frame) == (RequestHeader(18, 1_000, 5, None), 11)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        bytes(9),
        struct.pack(">hhih", 93, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", 3, -1, 1, -1),
        struct.pack(">hhih", 3, 1, 1, -2),
        struct.pack(">hhih", 3, 1, 1, 100) + b"short",
        struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe",
        struct.pack(">hhih", 3, 9, 1, -1),
        struct.pack(">hhih", 3, 9, 1, -1) + b"\xff\xff\xff\xff\x0f",
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x01\x00\xff\xff\xff\xff\x0f",
    ],
)
def test_heads_that_cannot_be_read_are_refused(frame: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_request_header(frame)


@pytest.mark.parametrize("raw", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01"])
def test_response_heads_that_are_cut_off_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_response_header(raw, ApiKey.METADATA, 12)


def test_a_frame_has_its_size_in_front() -> None:
    assert encode_frame(b"head", b"body!") == b"\x00\x00\x00\x09headbody!"


@given(st.binary(max_size=60))
def test_random_bytes_are_read_within_their_bounds_or_refused(frame: bytes) -> None:
    try:
        header, at = decode_request_header(memoryview(frame))
    except InvalidRequest:
        return
    assert 10 <= at <= len(frame)
    assert header.api_key in FIRST_FLEXIBLE_VERSION
