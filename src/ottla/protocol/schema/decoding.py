"""Functions that decode messages, compiled once per class from its fields.

A decoder for a wire version fills the class of another version: fields that only the wire has are read and
dropped, fields that only the class has get their defaults. No length is trusted: every array is first checked
against the bytes that are left, and all elements and tagged fields of one message share one budget.
"""

from __future__ import annotations

from collections.abc import Callable
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
Step = Callable[[Cursor, dict[str, Any]], None]


def compile_decoder(wire: EntityType, target: EntityType, max_elements: int) -> Callable[[Buffer, int], Any]:
    """Return a function of a buffer and a position that reads `wire`, as `target`.

    Bytes after the message are ignored, as Kafka does: librdkafka sends a few in Metadata v13.
    """
    read = _struct_reader(wire, target)

    def decode(buffer: Buffer, at: int = 0) -> Any:
        # One copy into bytes: indexing and slicing bytes is twice as fast as memoryviews.
        cursor = Cursor(bytes(memoryview(buffer)[at:]), max_elements)
        try:
            return read(cursor)
        except (IndexError, error):
            raise truncated() from None
        except UnicodeDecodeError:
            raise InvalidRequest("a string is not UTF-8") from None

    return decode


def _struct_reader(wire: EntityType, target: EntityType) -> Read:
    wanted = {spec.name: spec for spec in specs_of(target)}
    flexible: bool = wire.__flexible__
    specs = specs_of(wire)
    steps = _steps([spec for spec in specs if spec.tag is None], wanted, flexible)
    if has_tagged_fields(wire):
        steps.append(_tags_step([spec for spec in specs if spec.tag is not None], wanted))
    always_read = {spec.name for spec in specs if spec.tag is None}
    defaults = {name: spec.default for name, spec in wanted.items() if name not in always_read}

    def read_struct(cursor: Cursor) -> Any:
        values = defaults.copy()
        for step in steps:
            step(cursor, values)
        return target(**values)

    return read_struct


def _steps(specs: list[FieldSpec], wanted: dict[str, FieldSpec], flexible: bool) -> list[Step]:
    """Return one step per field, but only one for neighbours of fixed size."""
    steps: list[Step] = []
    run: list[FieldSpec] = []
    for spec in specs:
        if is_fixed(spec):
            run.append(spec)
            continue
        if run:
            steps.append(_fixed_step(run, wanted))
            run = []
        steps.append(_field_step(spec, wanted, flexible))
    if run:
        steps.append(_fixed_step(run, wanted))
    return steps


def _fixed_step(run: list[FieldSpec], wanted: dict[str, FieldSpec]) -> Step:
    layout = Struct(">" + "".join(FIXED_KINDS[spec.kind][0] for spec in run))
    unpack, size = layout.unpack_from, layout.size
    names = tuple(spec.name for spec in run)
    converted = tuple((spec.name, from_wire(spec)) for spec in run if spec.kind in CONVERTED_KINDS)
    dropped = tuple(name for name in names if name not in wanted)

    def step(cursor: Cursor, values: dict[str, Any]) -> None:
        at = cursor.position
        values.update(zip(names, unpack(cursor.buffer, at), strict=True))
        cursor.position = at + size
        for name, convert in converted:
            values[name] = convert(values[name])
        for name in dropped:
            del values[name]

    return step


def _field_step(spec: FieldSpec, wanted: dict[str, FieldSpec], flexible: bool) -> Step:
    name = spec.name
    if name not in wanted:
        skip = _reader(spec, spec, flexible)
        return lambda cursor, values: skip(cursor)
    read = _reader(spec, wanted[name], flexible)

    def step(cursor: Cursor, values: dict[str, Any]) -> None:
        values[name] = read(cursor)

    return step


def _tags_step(specs: list[FieldSpec], wanted: dict[str, FieldSpec]) -> Step:
    known = {
        spec.tag: (spec.name, _reader(spec, wanted[spec.name], True)) for spec in specs if spec.name in wanted
    }

    def step(cursor: Cursor, values: dict[str, Any]) -> None:
        buffer = cursor.buffer
        at = cursor.position
        if buffer[at] == 0:
            cursor.position = at + 1
            return
        count, cursor.position = read_tag_count(buffer, at)
        cursor.spend(count, 2)
        for _ in range(count):
            tag, cursor.position, end = read_tag(buffer, cursor.position)
            if tag in known:
                name, read = known[tag]
                values[name] = read(cursor)
                if cursor.position != end:
                    raise InvalidRequest(f"the tagged field {name} lies about its size")
            cursor.position = end

    return step


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
    read_length = _length_reader(flexible, Struct(">h" if is_text else ">i"))

    def read_sized(cursor: Cursor) -> str | bytes | None:
        size = read_length(cursor)
        if size < 0:
            _check_null(size, nullable)
            return None
        at = cursor.position
        end = at + size
        buffer = cursor.buffer
        if end > len(buffer):
            raise truncated()
        cursor.position = end
        return buffer[at:end].decode() if is_text else buffer[at:end]

    return read_sized


def _length_reader(flexible: bool, legacy: Struct) -> Callable[[Cursor], int]:
    """Return a reader of lengths and counts, which gives -1 for null."""

    def read_compact(cursor: Cursor) -> int:
        at = cursor.position
        length = cursor.buffer[at]
        if length < 0x80:
            cursor.position = at + 1
        else:
            length, cursor.position = read_uvarint(cursor.buffer, at)
        return length - 1

    unpack, size = legacy.unpack_from, legacy.size

    def read_legacy(cursor: Cursor) -> int:
        at = cursor.position
        cursor.position = at + size
        length: int = unpack(cursor.buffer, at)[0]
        return length

    return read_compact if flexible else read_legacy


def _check_null(size: int, nullable: bool) -> None:
    if size != -1:
        raise InvalidRequest(f"a field has length {size}")
    if not nullable:
        raise InvalidRequest("a field is null that may not be")


def _array_reader(spec: FieldSpec, target: FieldSpec, flexible: bool) -> Read:
    """Return a reader of an array."""
    read_length = _length_reader(flexible, Struct(">i"))
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
        count = read_length(cursor)
        if count < 0:
            _check_null(count, nullable)
            return None
        cursor.spend(count, smallest, weight)
        if unpackable is None:
            return tuple([read_element(cursor) for _ in range(count)])
        at = cursor.position
        cursor.position = at + count * smallest
        return unpack_from(f">{count}{unpackable[0]}", cursor.buffer, at)

    return read_array


def _element_spec(spec: FieldSpec) -> FieldSpec:
    return FieldSpec(spec.name, spec.kind, None, False, False, None, "")
