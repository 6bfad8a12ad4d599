"""Read the name of a schema in a record, as Confluent's serializers write it.

    prefix   byte 0, int32 schema id, [message indexes], data
    header   `__key_schema_id` or `__value_schema_id`: byte 1, 16 bytes GUID, [message indexes]

Only Protobuf has message indexes: the path to a message in its file, as zigzag varints, the number of indexes
first; [0] is written as one zero. Either name may be in either place; a header goes first.
"""

from __future__ import annotations

from struct import Struct
from uuid import UUID

KEY, VALUE = "key", "value"
HEADERS = {KEY: "__key_schema_id", VALUE: "__value_schema_id"}
ID_BYTES = 5
GUID_BYTES = 17
MAX_INDEXES = 100
MAX_VARINT_BYTES = 5
_ID = Struct(">bI")


class MalformedFrame(ValueError):
    """The bytes name no schema, or no message of one."""


def id_bytes(schema_id: int) -> bytes:
    """Return the five bytes that stand in front of the data."""
    return _ID.pack(0, schema_id)


def read_name(data: bytes) -> tuple[int | str, int] | None:
    """Return the id or GUID at the beginning, and where it ends; None if there is none."""
    first = data[:1]
    if first == b"\0" and len(data) >= ID_BYTES:
        return _ID.unpack_from(data)[1], ID_BYTES
    if first == b"\1" and len(data) >= GUID_BYTES:
        return str(UUID(bytes=data[1:GUID_BYTES])), GUID_BYTES
    return None


def read_indexes(data: bytes) -> tuple[list[int], int]:
    """Return message indexes and where they end."""
    count, position = _read_varint(data, 0)
    if not 0 <= count <= MAX_INDEXES:
        raise MalformedFrame(f"a Protobuf record names {count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        indexes.append(index)
    return indexes or [0], position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(data[position : position + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + count + 1
    raise MalformedFrame("a Protobuf record ends within its message indexes")
