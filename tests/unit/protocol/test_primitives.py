"""Varints, strings and tagged fields, checked against kio's writers and hostile bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import writers

from ottla.protocol import primitives
from ottla.protocol.errors import InvalidRequest


def written(write: Callable[..., None], value: object) -> bytes:
    out = io.BytesIO()
    write(out, value)
    return out.getvalue()


@given(st.integers(0, 2**32 - 1))
def test_uvarints_are_written_as_kio_writes_them_and_read_back(value: int) -> None:
    encoded = primitives.encode_uvarint(value)
    assert encoded == written(writers.write_unsigned_varint, value)
    assert primitives.read_uvarint(b"!" + encoded + b"!", 1) == (value, 1 + len(encoded))


@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_are_written_as_kio_writes_them_and_read_back(value: int) -> None:
    encoded = primitives.encode_varint(value)
    assert encoded == written(writers.write_signed_varint, value)
    assert primitives.read_varint(memoryview(encoded), 0) == (value, len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_are_written_as_kio_writes_them_and_read_back(value: int) -> None:
    encoded = primitives.encode_varint(value)
    assert encoded == written(writers.write_signed_varlong, value)
    assert primitives.read_varlong(encoded, 0) == (value, len(encoded))


def test_every_small_uvarint_has_its_own_bytes() -> None:
    for value in range(20_000):
        assert primitives.read_uvarint(primitives.encode_uvarint(value), 0)[0] == value


def test_a_negative_uvarint_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="-1"):
        primitives.encode_uvarint(-1)


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff\xff\xff\xff", b"\xff" * 5, b"\x80\x80\x80\x80\x10"])
def test_varints_that_never_end_or_are_too_wide_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        primitives.read_uvarint(raw, 0)
    with pytest.raises(InvalidRequest):
        primitives.read_varint(raw, 0)


@pytest.mark.parametrize("raw", [b"", b"\x80" * 9, b"\xff" * 10, b"\x80" * 9 + b"\x02"])
def test_varlongs_that_never_end_or_are_too_wide_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        primitives.read_varlong(raw, 0)


@given(st.none() | st.text(max_size=300))
def test_strings_are_written_as_kio_writes_them_and_read_back(value: str | None) -> None:
    legacy, compact = primitives.encode_string(value), primitives.encode_compact_string(value)
    assert legacy == written(writers.write_nullable_legacy_string, value)
    assert compact == written(writers.write_nullable_compact_string, value)
    assert primitives.read_nullable_string(legacy, 0) == (value, len(legacy))
    assert primitives.read_compact_nullable_string(memoryview(compact), 0) == (value, len(compact))


def test_null_is_refused_where_there_must_be_a_string() -> None:
    with pytest.raises(InvalidRequest, match="null"):
        primitives.read_string(b"\xff\xff", 0)
    with pytest.raises(InvalidRequest, match="null"):
        primitives.read_compact_string(b"\x00", 0)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\x80\x00", b"\x00\x05abc", b"\x00", b"\x00\x02\xff\xff"])
def test_strings_with_lying_lengths_or_bad_text_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        primitives.read_nullable_string(raw, 0)


@pytest.mark.parametrize("raw", [b"\x06abc", b"\xff\xff\xff\xff\x0f", b"\x03\xc3\x28"])
def test_compact_strings_with_lying_lengths_or_bad_text_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        primitives.read_compact_string(raw, 0)


def test_a_string_too_long_for_its_length_field_is_refused_when_written() -> None:
    with pytest.raises(InvalidRequest):
        primitives.encode_string("x" * 32_768)
    assert len(primitives.encode_string("x" * 32_767)) == 32_769


def test_tagged_fields_are_skipped_whatever_they_are() -> None:
    section = b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
    assert primitives.skip_tagged_fields(b"." + section + b"rest", 1) == 1 + len(section)
    assert primitives.skip_tagged_fields(b"\x00", 0) == 1


@pytest.mark.parametrize("raw", [b"", b"\x01", b"\x01\x00", b"\x01\x00\x05abc", b"\x41" + b"\x00\x00" * 65])
def test_tagged_fields_that_do_not_fit_or_are_too_many_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        primitives.skip_tagged_fields(raw, 0)


def test_sixty_four_tagged_fields_are_still_allowed() -> None:
    raw = b"\x40" + b"\x00\x00" * 64
    assert primitives.skip_tagged_fields(raw, 0) == len(raw)


def test_fixed_integers_are_read_and_refused_when_cut_off() -> None:
    assert primitives.read_int16(b"\xff\xfe", 0) == (-2, 2)
    assert primitives.read_int32(b".\x00\x00\x01\x00", 1) == (256, 5)
    with pytest.raises(InvalidRequest):
        primitives.read_int16(b"\x00", 0)
    with pytest.raises(InvalidRequest):
        primitives.read_int32(b"\x00\x00\x00", 0)


READERS = [
    primitives.read_uvarint,
    primitives.read_varint,
    primitives.read_varlong,
    primitives.read_nullable_string,
    primitives.read_string,
    primitives.read_compact_nullable_string,
    primitives.read_compact_string,
    primitives.read_tag,
    primitives.skip_tagged_fields,
]


@given(st.binary(max_size=40), st.sampled_from(READERS))
def test_random_bytes_are_read_within_their_bounds_or_refused(raw: bytes, read: Callable[..., Any]) -> None:
    try:
        result = read(raw, 0)
    except InvalidRequest:
        return
    end = result[-1] if isinstance(result, tuple) else result
    assert 0 < end <= len(raw)
