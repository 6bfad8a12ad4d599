"""The elements of the wire format: variable-length integers, strings, tagged fields.

    uvarint         7 bits per byte, low bits first, top bit = more follows; at most 5 bytes
    varint/varlong  the same over zig-zag (0, -1, 1, -2 ... become 0, 1, 2, 3 ...); 5 / 10 bytes
    string          int16 length + UTF-8; length -1 = null
    compact string  uvarint length + 1, then UTF-8; 0 = null
    bytes           int32 length, or compact: uvarint length + 1
    tagged fields   uvarint count, then per field: uvarint tag, uvarint size, `size` bytes

Readers take a buffer and a position and return the value and the position after it. They raise InvalidRequest
for truncated or invalid bytes. Writers return bytes.
"""

from __future__ import annotations

from struct import Struct, error

from ottla.protocol.errors import InvalidRequest

Buffer = bytes | bytearray | memoryview

MAX_TAGGED_FIELDS = 64
MAX_STRING_BYTES = 0x7FFF
"""In versions with int16 lengths."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def truncated() -> InvalidRequest:
    """Return the error for bytes that end inside a value."""
    return InvalidRequest("the message ends in the middle of a field")


def read_int16(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a big-endian int16."""
    try:
        return _INT16.unpack_from(buffer, position)[0], position + 2
    except error:
        raise truncated() from None


def read_int32(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a big-endian int32."""
    try:
        return _INT32.unpack_from(buffer, position)[0], position + 4
    except error:
        raise truncated() from None


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return byte, position + 1
        value = byte & 0x7F
        for shift in (7, 14, 21, 28):
            position += 1
            byte = buffer[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value, position + 1
    except IndexError:
        raise truncated() from None
    raise InvalidRequest("a varint has more than 32 bits")


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zig-zag varint of at most 32 bits."""
    value, position = read_uvarint(buffer, position)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zig-zag varint of at most 64 bits."""
    value = 0
    try:
        for shift in range(0, 70, 7):
            byte = buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFFFFFFFFFF:
                    break
                return (value >> 1) ^ -(value & 1), position
    except IndexError:
        raise truncated() from None
    raise InvalidRequest("a varlong has more than 64 bits")


def read_text(buffer: Buffer, position: int, size: int) -> str:
    """Return `size` bytes at the position as text; they must be complete and UTF-8."""
    end = position + size
    if end > len(buffer):
        raise truncated()
    try:
        return str(buffer[position:end], "utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest("a string is not UTF-8") from None


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Read a string with an int16 length, -1 for null."""
    size, position = read_int16(buffer, position)
    if size < 0:
        if size != -1:
            raise InvalidRequest(f"a string has length {size}")
        return None, position
    return read_text(buffer, position, size), position + size


def read_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """Read a string with an int16 length."""
    value, position = read_nullable_string(buffer, position)
    if value is None:
        raise InvalidRequest("a string is null that may not be")
    return value, position


def read_compact_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Read a string whose length + 1 is a uvarint, 0 for null."""
    size, position = read_uvarint(buffer, position)
    if size == 0:
        return None, position
    size -= 1
    return read_text(buffer, position, size), position + size


def read_compact_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """Read a string whose length + 1 is a uvarint."""
    if position < len(buffer) and 0 < (size := buffer[position]) < 0x80:  # as a rule
        return read_text(buffer, position + 1, size - 1), position + size
    value, position = read_compact_nullable_string(buffer, position)
    if value is None:
        raise InvalidRequest("a string is null that may not be")
    return value, position


def read_tag_count(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read the number of tagged fields; reject more than MAX_TAGGED_FIELDS."""
    count, position = read_uvarint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise InvalidRequest(f"{count} tagged fields in one struct; {MAX_TAGGED_FIELDS} are allowed")
    return count, position


def read_tag(buffer: Buffer, position: int) -> tuple[int, int, int]:
    """Read the head of a tagged field; return its tag, and where its value starts and ends."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    end = position + size
    if end > len(buffer):
        raise truncated()
    return tag, position, end


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """Return the position after a section of tagged fields."""
    if position < len(buffer) and buffer[position] == 0:  # as a rule there are none
        return position + 1
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        _, _, position = read_tag(buffer, position)
    return position


_SMALL_UVARINTS = tuple(bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(1024))


def encode_uvarint(value: int) -> bytes:
    """Return `value` as an unsigned varint; ValueError if it is negative."""
    if 0 <= value < 1024:
        return _SMALL_UVARINTS[value]
    if value < 0:
        raise ValueError(f"a uvarint cannot hold {value}")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Return `value` as a zig-zag varint; wide enough for varlongs too."""
    return encode_uvarint((value << 1) ^ (value >> 63))


def encode_string(value: str | None) -> bytes:
    """Return `value` with an int16 length; null is -1."""
    if value is None:
        return b"\xff\xff"
    raw = value.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise InvalidRequest(f"a string of {len(raw)} bytes does not fit this version of the message")
    return _INT16.pack(len(raw)) + raw


def encode_compact_string(value: str | None) -> bytes:
    """Return `value` with its length + 1 as a uvarint; null is 0."""
    if value is None:
        return b"\x00"
    raw = value.encode()
    size = len(raw) + 1
    return (bytes((size,)) if size < 0x80 else encode_uvarint(size)) + raw
