"""The pieces that record values are made of: a cursor to read them, and functions to write them.

Values come in two styles. The classic ones (versions 0 to 3) have int16 and int32 lengths; the flexible
ones (classic version 4, and all of KIP-848) have varint lengths plus one, and end every struct with
tagged fields: a count, then tag, size and bytes of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct, error
from typing import TypeVar
from uuid import UUID

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import (
    encode_compact_string,
    encode_uvarint,
    read_compact_nullable_string,
    read_nullable_string,
    read_tag,
    read_tag_count,
    read_uvarint,
    truncated,
)

T = TypeVar("T")

INT8 = Struct(">b")
INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")

NO_TAGS = b"\x00"


class Reader:
    """A position in the bytes of one value."""

    __slots__ = ("_at", "_data", "_flexible")

    def __init__(self, data: bytes, at: int, flexible: bool) -> None:
        self._data = data
        self._at = at
        self._flexible = flexible

    def number(self, layout: Struct) -> int:
        """Read one number."""
        try:
            (value,) = layout.unpack_from(self._data, self._at)
        except error:
            raise truncated() from None
        self._at += layout.size
        return int(value)

    def nullable_string(self) -> str | None:
        """Read a string that may be null."""
        read = read_compact_nullable_string if self._flexible else read_nullable_string
        value, self._at = read(self._data, self._at)
        return value

    def string(self) -> str:
        """Read a string."""
        value = self.nullable_string()
        if value is None:
            raise InvalidRequest("a string is null that may not be")
        return value

    def bytes(self) -> bytes:
        """Read a byte string."""
        size = self._length()
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise truncated()
        return self._data[start : self._at]

    def array(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Read an array; its elements have a byte each at the least."""
        count = self._length()
        if count > len(self._data) - self._at:
            raise truncated()
        return tuple([read() for _ in range(count)])

    def nullable_array(self, read: Callable[[], T]) -> tuple[T, ...] | None:
        """Read an array that may be null."""
        start = self._at
        size, _ = read_uvarint(self._data, start) if self._flexible else (self.number(INT32) + 1, 0)
        if size == 0:
            self._at = start + (1 if self._flexible else INT32.size)
            return None
        self._at = start
        return self.array(read)

    def uuid(self) -> UUID:
        """Read a topic id."""
        start, self._at = self._at, self._at + 16
        if self._at > len(self._data):
            raise truncated()
        return UUID(bytes=self._data[start : self._at])

    def int32(self) -> int:
        """Read an int32, as an element of an array."""
        return self.number(INT32)

    def tags(self) -> dict[int, Reader]:
        """Read the tagged fields at the end of a struct, if this style has them."""
        found: dict[int, Reader] = {}
        if self._flexible:
            count, self._at = read_tag_count(self._data, self._at)
            for _ in range(count):
                tag, start, self._at = read_tag(self._data, self._at)
                found[tag] = Reader(self._data[: self._at], start, flexible=True)
        return found

    def _length(self) -> int:
        if self._flexible:
            size, self._at = read_uvarint(self._data, self._at)
            size -= 1
        else:
            size = self.number(INT32)
        if size < 0:
            raise InvalidRequest(f"a field has length {size}")
        return size


def legacy_bytes(value: bytes) -> bytes:
    """Write a byte string with an int32 length."""
    return INT32.pack(len(value)) + value


def compact_bytes(value: bytes) -> bytes:
    """Write a byte string with a varint length."""
    return encode_uvarint(len(value) + 1) + value


def compact_array(elements: Iterable[bytes]) -> bytes:
    """Write an array of elements that are written already."""
    written = list(elements)
    return encode_uvarint(len(written) + 1) + b"".join(written)


def compact_strings(values: Iterable[str]) -> bytes:
    """Write an array of strings."""
    return compact_array(map(encode_compact_string, values))


def tagged(tag: int, value: bytes) -> bytes:
    """Write a section with one tagged field."""
    return b"\x01" + encode_uvarint(tag) + encode_uvarint(len(value)) + value
