"""Writes and reads the name of a schema in a record: in front of the data, or in a header.

The layout is in ottla.protocol.schema_frame, which brokers use as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.protocol import schema_frame
from ottla.protocol.schema_frame import HEADERS, KEY, VALUE, MalformedFrame, id_bytes, read_name
from ottla.registry.serdes.errors import NotFramed

__all__ = [
    "HEADER",
    "HEADERS",
    "KEY",
    "PREFIX",
    "VALUE",
    "Frame",
    "guid_bytes",
    "id_bytes",
    "index_bytes",
    "read_frame",
    "read_indexes",
]

PREFIX, HEADER = "prefix", "header"

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
    found = read_name(data)
    if found is None:
        raise NotFramed(
            f"{what} does not start with byte 0 and a schema id: it was written without a schema registry. "
            "Read it without a deserializer of the registry"
        )
    return found[0], data[found[1] :]


def index_bytes(indexes: Sequence[int]) -> bytes:
    """Return message indexes as they are written."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))


def read_indexes(data: bytes) -> tuple[list[int], int]:
    """Return message indexes and where they end; raise NotFramed."""
    try:
        return schema_frame.read_indexes(data)
    except MalformedFrame as error:
        raise NotFramed(str(error)) from None


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
