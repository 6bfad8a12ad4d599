"""Functions that write messages, compiled once per class from its fields.

A writer built for a wire version takes the class of another version: fields that only the class
has are dropped, fields that only the wire has are written with their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from struct import Struct, pack
from typing import Any

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import MAX_STRING_BYTES, encode_uvarint
from ottla.protocol.schema.fields import (
    CONVERTED_KINDS,
    FIXED_KINDS,
    EntityType,
    FieldSpec,
    has_tagged_fields,
    is_fixed,
    specs_of,
    to_wire,
    zero_of,
)

Write = Callable[[bytearray, Any], None]
"""Appends a value, or the fields of an entity, to the bytes of a message."""

_INT16 = Struct(">h")
_INT32 = Struct(">i")


def compile_encoder(wire: EntityType, source: EntityType) -> Callable[[Any], bytes]:
    """Return a function that writes an instance of `source` as the version of `wire`."""
    write = _struct_writer(wire, source)

    def encode(entity: Any) -> bytes:
        out = bytearray()
        write(out, entity)
        return bytes(out)

    return encode


def _struct_writer(wire: EntityType, source: EntityType) -> Write:
    """Return a writer of a struct: one call per field, and one for neighbours of fixed size."""
    given = {spec.name: spec for spec in specs_of(source)}
    specs = specs_of(wire)
    fields = tuple(_fields([spec for spec in specs if spec.tag is None], given, wire.__flexible__))
    tagged = [spec for spec in specs if spec.tag is not None and spec.name in given]
    write_tags = _tags_writer(tagged, given) if tagged else None
    end = b"\x00" if has_tagged_fields(wire) and not tagged else b""

    def write_struct(out: bytearray, entity: Any) -> None:
        for get, write in fields:
            write(out, get(entity))
        if write_tags is not None:
            write_tags(out, entity)
        out += end

    return write_struct


def _fields(
    specs: list[FieldSpec], given: dict[str, FieldSpec], flexible: bool
) -> Iterator[tuple[Callable[[Any], Any], Write]]:
    """Yield how to get and how to write each field; neighbours of fixed size are one."""
    for packed, group in groupby(specs, lambda spec: is_fixed(spec) and spec.name in given):
        run = list(group)
        if packed and len(run) > 1:
            yield attrgetter(*(spec.name for spec in run)), _run_writer(run)
            continue
        for spec in run:
            if spec.name in given:
                yield attrgetter(spec.name), _field_writer(spec, given[spec.name], flexible)
            else:
                yield type, _constant_writer(spec, flexible)


def _run_writer(run: list[FieldSpec]) -> Write:
    """Return a writer of neighbours of fixed size, given as a tuple."""
    layout = Struct(">" + "".join(FIXED_KINDS[spec.kind][0] for spec in run)).pack
    converted = tuple((i, to_wire(spec.kind)) for i, spec in enumerate(run) if spec.kind in CONVERTED_KINDS)

    def write_run(out: bytearray, given: tuple[Any, ...]) -> None:
        values = list(given)
        for i, convert in converted:
            values[i] = convert(values[i])
        out += layout(*values)

    return write_run


def _field_writer(spec: FieldSpec, given: FieldSpec, flexible: bool) -> Write:
    write = _writer(spec, given, flexible)
    if not given.nullable or spec.nullable or spec.kind == "datetime_i64":
        return write
    # The older version has no null: what is absent goes out empty.
    instead = zero_of(given)

    def write_without_null(out: bytearray, value: Any) -> None:
        write(out, instead if value is None else value)

    return write_without_null


def _constant_writer(spec: FieldSpec, flexible: bool) -> Write:
    """Return a writer of the default of a field that only the wire has, whatever it is given."""
    constant = bytearray()
    _writer(spec, spec, flexible)(constant, spec.default)

    def write_constant(out: bytearray, _: Any) -> None:
        out += constant

    return write_constant


def _tags_writer(specs: list[FieldSpec], given: dict[str, FieldSpec]) -> Write:
    """Return a writer of the tagged fields of an entity that are not their defaults."""
    tagged = tuple(
        (
            encode_uvarint(spec.tag or 0),
            attrgetter(spec.name),
            given[spec.name].default,
            _writer(spec, given[spec.name], True),
        )
        for spec in sorted(specs, key=lambda spec: spec.tag or 0)
    )

    def write_tags(out: bytearray, entity: Any) -> None:
        count = 0
        section = bytearray()
        for tag, get, default, write in tagged:
            value = get(entity)
            if value != default:
                body = bytearray()
                write(body, value)
                section += tag + encode_uvarint(len(body)) + body
                count += 1
        out += encode_uvarint(count)
        out += section

    return write_tags


def _writer(spec: FieldSpec, given: FieldSpec, flexible: bool) -> Write:
    """Return a writer of one field's value; `given` is the same field in the class it comes from."""
    if spec.is_array:
        return _array_writer(spec, given, flexible)
    if spec.struct is not None:
        write = _struct_writer(spec.struct, _struct_of(given))
        return _nullable_struct_writer(write) if spec.nullable else write
    if spec.kind in FIXED_KINDS:
        return _fixed_writer(spec.kind)
    return _sized_writer(spec, flexible)


def _struct_of(spec: FieldSpec) -> EntityType:
    if spec.struct is None:
        raise TypeError(f"{spec.name} is a struct in one version and none in another")
    return spec.struct


def _nullable_struct_writer(write: Write) -> Write:
    def write_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0xFF)
        else:
            out.append(1)
            write(out, value)

    return write_nullable


def _fixed_writer(kind: str) -> Write:
    layout = Struct(">" + FIXED_KINDS[kind][0]).pack
    convert = to_wire(kind) if kind in CONVERTED_KINDS else None

    def write_fixed(out: bytearray, value: Any) -> None:
        out += layout(value if convert is None else convert(value))

    return write_fixed


def _sized_writer(spec: FieldSpec, flexible: bool) -> Write:
    """Return a writer of strings, bytes and records."""
    is_text, nullable = spec.kind == "string", spec.nullable
    layout = (_INT16 if is_text else _INT32).pack
    null = b"\x00" if flexible else layout(-1)

    def write_sized(out: bytearray, value: Any) -> None:
        if value is None:
            if not nullable:
                raise TypeError(f"{spec.name} is None, which the message cannot carry")
            out += null
            return
        raw = value.encode() if is_text else value
        size = len(raw)
        if not flexible:
            if is_text and size > MAX_STRING_BYTES:
                raise InvalidRequest(f"a string of {size} bytes does not fit this version of the message")
            out += layout(size)
        elif size < 0x7F:
            out.append(size + 1)
        else:
            out += encode_uvarint(size + 1)
        out += raw

    return write_sized


def _array_writer(spec: FieldSpec, given: FieldSpec, flexible: bool) -> Write:
    write_element = _element_writer(spec, given, flexible)
    packable = None if spec.kind in CONVERTED_KINDS else FIXED_KINDS.get(spec.kind)
    nullable = spec.nullable

    def write_array(out: bytearray, values: Any) -> None:
        if values is None:
            if not nullable:
                raise TypeError(f"{spec.name} is None, which the message cannot carry")
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            return
        out += encode_uvarint(len(values) + 1) if flexible else _INT32.pack(len(values))
        if packable is not None:
            out += pack(f">{len(values)}{packable[0]}", *values)
            return
        for value in values:
            write_element(out, value)

    return write_array


def _element_writer(spec: FieldSpec, given: FieldSpec, flexible: bool) -> Write:
    if spec.struct is not None:
        return _struct_writer(spec.struct, _struct_of(given))
    if spec.kind in FIXED_KINDS:
        return _fixed_writer(spec.kind)
    return _sized_writer(FieldSpec(spec.name, spec.kind, None, False, False, None, ""), flexible)
