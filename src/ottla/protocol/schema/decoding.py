"""Functions that decode messages, compiled once per class from its fields.

A decoder for a wire version fills the class of another version: fields that only the wire has are read and
dropped, fields that only the class has get their defaults. No length is trusted: every array is first checked
against the bytes that are left, and all elements and tagged fields of one message share one budget.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from struct import Struct, error, unpack_from
from typing import Any

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import Buffer, read_tag, read_tag_count, read_uvarint, truncated
from ottla.protocol.schema.fields import (
    CONVERTED_KINDS,
    FIXED_KINDS,
    EntityType,
    FieldSpec,
    from_wire,
    has_tagged_fields,
    is_fixed,
    smallest_size,
    specs_of,
)

_INT32 = Struct(">i")


class Cursor:
    """The position in the message, and how many more elements may be created."""

    __slots__ = ("buffer", "elements_left", "position")

    def __init__(self, buffer: bytes, elements: int) -> None:
        self.buffer = buffer
        self.position = 0
        self.elements_left = elements

    def spend(self, count: int, smallest: int, weight: int = 1) -> None:
        """Allow `count` more elements of at least `smallest` bytes each, or raise."""
        if count * smallest > len(self.buffer) - self.position:
            raise InvalidRequest(f"{count} elements cannot fit into the rest of the message")
        self.elements_left -= count * weight
        if self.elements_left < 0:
            raise InvalidRequest("the message has too many elements")


Read = Callable[[Cursor], Any]


def compile_decoder(wire: EntityType, target: EntityType, max_elements: int) -> Callable[[Buffer, int], Any]:
    """Return a function of a buffer and a position that reads `wire`, as `target`.

    Bytes after the message are ignored, as Kafka does: librdkafka sends a few in Metadata v13.
    """
    read = _struct_reader(wire, target)

    def decode(buffer: Buffer, position: int = 0) -> Any:
        # One copy into bytes: indexing and slicing bytes is twice as fast as memoryviews.
        cursor = Cursor(bytes(memoryview(buffer)[position:]), max_elements)
        try:
            return read(cursor)
        except (IndexError, error):
            raise truncated() from None
        except UnicodeDecodeError:
            raise InvalidRequest("a string is not UTF-8") from None

    return decode


def _struct_reader(wire: EntityType, target: EntityType) -> Read:
    """Return a reader of a struct: one call per field, and one for neighbours of fixed size."""
    wanted = {spec.name: spec for spec in specs_of(target)}
    flexible: bool = wire.__flexible__
    specs = specs_of(wire)
    untagged = [spec for spec in specs if spec.tag is None]
    readers = _readers(untagged, wanted, flexible)
    has_tags = has_tagged_fields(wire)
    read_tags = _tags_reader([spec for spec in specs if spec.tag is not None], wanted)
    always_read = {spec.name for spec in untagged}
    defaults = {name: spec.default for name, spec in wanted.items() if name not in always_read}
    dropped = tuple(always_read - wanted.keys())

    def read_struct(cursor: Cursor) -> Any:
        values = defaults.copy()
        for name, read in readers:
            if name is None:
                values.update(read(cursor))
            else:
                values[name] = read(cursor)
        if has_tags:
            if cursor.buffer[cursor.position]:
                values.update(read_tags(cursor))
            else:  # as a rule there are none
                cursor.position += 1
        for name in dropped:
            del values[name]
        return target(**values)

    return read_struct


def _readers(
    specs: list[FieldSpec], wanted: dict[str, FieldSpec], flexible: bool
) -> tuple[tuple[str | None, Read], ...]:
    """Return the fields' names and readers; None with one that reads several, and returns them by name."""
    readers: list[tuple[str | None, Read]] = []
    for fixed, group in groupby(specs, is_fixed):
        if fixed:
            readers.append((None, _run_reader(list(group))))
        else:
            readers += [(spec.name, _reader(spec, wanted.get(spec.name, spec), flexible)) for spec in group]
    return tuple(readers)


def _run_reader(run: list[FieldSpec]) -> Read:
    """Return a reader of neighbours of fixed size."""
    layout = Struct(">" + "".join(FIXED_KINDS[spec.kind][0] for spec in run))
    unpack, size = layout.unpack_from, layout.size
    names = tuple(spec.name for spec in run)
    converted = tuple((spec.name, from_wire(spec)) for spec in run if spec.kind in CONVERTED_KINDS)

    def read_run(cursor: Cursor) -> dict[str, Any]:
        position = cursor.position
        values = dict(zip(names, unpack(cursor.buffer, position), strict=True))
        cursor.position = position + size
        for name, convert in converted:
            values[name] = convert(values[name])
        return values

    return read_run


def _tags_reader(specs: list[FieldSpec], wanted: dict[str, FieldSpec]) -> Read:
    """Return a reader of a section of tagged fields, which returns those that are wanted by name."""
    known = {
        spec.tag: (spec.name, _reader(spec, wanted[spec.name], True)) for spec in specs if spec.name in wanted
    }

    def read_tags(cursor: Cursor) -> dict[str, Any]:
        values: dict[str, Any] = {}
        count, cursor.position = read_tag_count(cursor.buffer, cursor.position)
        cursor.spend(count, 2)
        for _ in range(count):
            tag, cursor.position, end = read_tag(cursor.buffer, cursor.position)
            if tag in known:
                name, read = known[tag]
                values[name] = read(cursor)
                if cursor.position != end:
                    raise InvalidRequest(f"the tagged field {name} lies about its size")
            cursor.position = end
        return values

    return read_tags


def _reader(spec: FieldSpec, target: FieldSpec, flexible: bool) -> Read:
    """Return a reader of one field; `target` is the same field in the class to be filled."""
    if spec.is_array:
        return _array_reader(spec, target, flexible)
    if spec.struct is not None:
        read = _struct_reader(spec.struct, _struct_of(target))
        return _nullable_struct_reader(read) if spec.nullable else read
    if spec.kind in FIXED_KINDS:
        return _fixed_reader(spec)
    return _sized_reader(flexible, spec)


def _struct_of(spec: FieldSpec) -> EntityType:
    if spec.struct is None:
        raise TypeError(f"{spec.name} is a struct in one version and none in another")
    return spec.struct


def _nullable_struct_reader(read: Read) -> Read:
    def read_nullable(cursor: Cursor) -> Any:
        marker = cursor.buffer[cursor.position]
        cursor.position += 1
        if marker == 0xFF:
            return None
        if marker != 1:
            raise InvalidRequest(f"a struct is neither there nor null, but {marker}")
        return read(cursor)

    return read_nullable


def _fixed_reader(spec: FieldSpec) -> Read:
    code, size = FIXED_KINDS[spec.kind]
    unpack = Struct(">" + code).unpack_from
    convert = from_wire(spec) if spec.kind in CONVERTED_KINDS else None

    def read_fixed(cursor: Cursor) -> Any:
        (value,) = unpack(cursor.buffer, cursor.position)
        cursor.position += size
        return value if convert is None else convert(value)

    return read_fixed


def _sized_reader(flexible: bool, spec: FieldSpec) -> Read:
    """Return a reader of strings, bytes and records."""
    is_text = spec.kind == "string"
    nullable = spec.nullable
    layout = Struct(">h" if is_text else ">i")
    unpack, length_size = layout.unpack_from, layout.size

    def read_sized(cursor: Cursor) -> str | bytes | None:
        buffer, position = cursor.buffer, cursor.position
        if not flexible:
            (size,) = unpack(buffer, position)
            position += length_size
        elif buffer[position] < 0x80:
            size = buffer[position] - 1
            position += 1
        else:
            size, position = read_uvarint(buffer, position)
            size -= 1
        if size < 0:
            if size != -1 or not nullable:
                raise _not_nullable(size)
            cursor.position = position
            return None
        end = position + size
        if end > len(buffer):
            raise truncated()
        cursor.position = end
        return buffer[position:end].decode() if is_text else buffer[position:end]

    return read_sized


def _not_nullable(size: int) -> InvalidRequest:
    if size != -1:
        return InvalidRequest(f"a field has length {size}")
    return InvalidRequest("a field is null that may not be")


def _array_reader(spec: FieldSpec, target: FieldSpec, flexible: bool) -> Read:
    """Return a reader of an array."""
    nullable = spec.nullable
    weight = 1
    if spec.struct is not None:
        smallest = max(smallest_size(spec.struct), 1)
        # What takes three times as long to build, look up and answer counts three times.
        weight = max(2, 1 + len(specs_of(spec.struct)) // 3)
        read_element = _struct_reader(spec.struct, _struct_of(target))
    elif spec.kind in FIXED_KINDS:
        smallest = FIXED_KINDS[spec.kind][1]
        read_element = _fixed_reader(spec)
    else:
        smallest = 1 if flexible else 2
        weight = 2  # strings in arrays are names: each is looked up, and answered with more than a number
        read_element = _sized_reader(flexible, _element_spec(spec))
    unpackable = None if spec.kind in CONVERTED_KINDS else FIXED_KINDS.get(spec.kind)

    def read_array(cursor: Cursor) -> tuple[Any, ...] | None:
        if flexible:
            count, cursor.position = read_uvarint(cursor.buffer, cursor.position)
            count -= 1
        else:
            (count,) = _INT32.unpack_from(cursor.buffer, cursor.position)
            cursor.position += _INT32.size
        if count < 0:
            if count != -1 or not nullable:
                raise _not_nullable(count)
            return None
        cursor.spend(count, smallest, weight)
        if unpackable is None:
            return tuple([read_element(cursor) for _ in range(count)])
        position = cursor.position
        cursor.position = position + count * smallest
        return unpack_from(f">{count}{unpackable[0]}", cursor.buffer, position)

    return read_array


def _element_spec(spec: FieldSpec) -> FieldSpec:
    return FieldSpec(spec.name, spec.kind, None, False, False, None, "")
