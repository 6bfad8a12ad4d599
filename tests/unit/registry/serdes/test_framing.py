"""Where a record names its schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.registry.serdes.errors import NotFramed
from ottla.registry.serdes.framing import (
    guid_bytes,
    id_bytes,
    index_bytes,
    read_frame,
    read_indexes,
)

GUID = "01234567-89ab-cdef-0123-456789abcdef"


def test_a_header_goes_before_the_prefix() -> None:
    data = id_bytes(7) + b"x"
    assert read_frame("value", data, ()) == (7, b"x", None)
    headers = [("__key_schema_id", id_bytes(3)), ("__value_schema_id", guid_bytes(GUID) + b"\0")]
    assert read_frame("value", data, headers) == (GUID, b"\0", data)
    assert read_frame("key", data, headers) == (3, b"", data)
    assert read_frame("value", guid_bytes(GUID) + b"x", ()).schema == GUID


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0", b"\1" + bytes(15), b"{}", b"\2" + bytes(20)])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(NotFramed, match="the value does not start with byte 0"):
        read_frame("value", data, ())


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20), st.binary(max_size=5))
def test_message_indexes_are_restored(indexes: list[int], rest: bytes) -> None:
    written = index_bytes(indexes)
    assert read_indexes(written + rest) == (indexes, len(written))


@given(st.binary(max_size=40))
def test_bytes_at_random_are_indexes_or_refused(data: bytes) -> None:
    try:
        indexes, end = read_indexes(data)
    except NotFramed:
        return
    assert len(indexes) <= 100
    assert 0 < end <= len(data)


def test_the_first_message_is_one_zero() -> None:
    assert index_bytes([0]) == b"\0"
    assert index_bytes([1, 0]) == b"\x04\x02\x00"
