"""Writes and reads the name of a schema in a record: in front of the data, or in a header.

    prefix   byte 0, int32 schema id, [message indexes], data
    header   `__key_schema_id` or `__value_schema_id`: byte 1, 16 bytes GUID, [message indexes]

Only Protobuf has message indexes: the path to a message in its file, as zigzag varints, the number of indexes
first; [0] is written as one zero. Either name may be in either place; a header goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from ottla.registry.serdes.errors import NotFramed

KEY, VALUE = "key", "value"
PREFIX, HEADER = "prefix", "header"
HEADERS = {KEY: "__key_schema_id", VALUE: "__value_schema_id"}
MAX_INDEXES = 100
MAX_VARINT_BYTES = 5
_ID = Struct(">bI")
_GUID_BYTES = 17

Headers = Iterable[tuple[str, bytes | None]]


class Frame(NamedTuple):
    """Which schema the bytes were written with, and where the data is."""

    schema: int | str
    """An id, or a GUID."""
    rest: bytes
    """What follows the name of the schema."""
    payload: bytes | None
    """The data, if it is not what follows: the name was in a header."""

    @property
    def data(self) -> bytes:
        """Return the data of a format without message indexes."""
        return self.rest if self.payload is None else self.payload


def id_bytes(schema_id: int) -> bytes:
    """Return the five bytes that stand in front of the data."""
    return _ID.pack(0, schema_id)


def guid_bytes(guid: str) -> bytes:
    """Return the value of the header."""
    return b"\1" + UUID(guid).bytes


def read_frame(field: str, data: bytes, headers: Headers) -> Frame:
    """Find the schema's name in the headers, or else in front of the data; raise NotFramed."""
    name = HEADERS[field]
    for key, value in headers:
        if key == name and value is not None:
            schema, rest = _split(value, f"the header {name}")
            return Frame(schema, rest, data)
    schema, rest = _split(data, f"the {field}")
    return Frame(schema, rest, None)


def _split(data: bytes, what: str) -> tuple[int | str, bytes]:
    if data[:1] == b"\0" and len(data) >= _ID.size:
        return _ID.unpack_from(data)[1], data[_ID.size :]
    if data[:1] == b"\1" and len(data) >= _GUID_BYTES:
        return str(UUID(bytes=data[1:_GUID_BYTES])), data[_GUID_BYTES:]
    raise NotFramed(
        f"{what} does not start with byte 0 and a schema id: it was written without a schema registry. "
        "Read it without a deserializer of the registry"
    )


def index_bytes(indexes: Sequence[int]) -> bytes:
    """Return message indexes as they are written."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))


def read_indexes(data: bytes) -> tuple[list[int], int]:
    """Return message indexes and where they end; raise NotFramed."""
    count, position = _read_varint(data, 0)
    if not 0 <= count <= MAX_INDEXES:
        raise NotFramed(f"a Protobuf record names {count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        indexes.append(index)
    return indexes or [0], position


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(data[position : position + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + count + 1
    raise NotFramed("a Protobuf record ends within its message indexes")
