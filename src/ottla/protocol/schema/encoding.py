"""Functions that write messages, compiled once per class from its fields.

A writer built for a wire version takes the class of another version: fields that only the class
has are dropped, fields that only the wire has are written with their defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from struct import Struct, pack
from typing import Any

from ottla.protocol.primitives import encode_compact_string, encode_string, encode_uvarint
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
    given = {spec.name: spec for spec in specs_of(source)}
    flexible: bool = wire.__flexible__
    specs = specs_of(wire)
    steps = _steps([spec for spec in specs if spec.tag is None], given, flexible)
    if has_tagged_fields(wire):
        steps.append(_tags_step([spec for spec in specs if spec.tag is not None], given))

    def write_struct(out: bytearray, entity: Any) -> None:
        for step in steps:
            step(out, entity)

    return write_struct


def _steps(specs: list[FieldSpec], given: dict[str, FieldSpec], flexible: bool) -> list[Write]:
    """Return one step per field, but only one for neighbours of fixed size."""
    steps: list[Write] = []
    run: list[FieldSpec] = []
    for spec in specs:
        if is_fixed(spec) and spec.name in given:
            run.append(spec)
            continue
        if run:
            steps.append(_fixed_step(run))
            run = []
        if spec.name in given:
            steps.append(_field_step(spec, given[spec.name], flexible))
        else:
            steps.append(_constant_step(spec, flexible))
    if run:
        steps.append(_fixed_step(run))
    return steps


def _fixed_step(run: list[FieldSpec]) -> Write:
    layout = Struct(">" + "".join(FIXED_KINDS[spec.kind][0] for spec in run)).pack
    if len(run) == 1:
        return _field_step(run[0], run[0], False)
    get = attrgetter(*(spec.name for spec in run))
    converted = tuple((i, to_wire(spec.kind)) for i, spec in enumerate(run) if spec.kind in CONVERTED_KINDS)

    def step(out: bytearray, entity: Any) -> None:
        if not converted:
            out += layout(*get(entity))
            return
        values = list(get(entity))
        for i, convert in converted:
            values[i] = convert(values[i])
        out += layout(*values)

    return step


def _field_step(spec: FieldSpec, given: FieldSpec, flexible: bool) -> Write:
    get = attrgetter(spec.name)
    write = _writer(spec, given, flexible)
    if given.nullable and not spec.nullable and spec.kind != "datetime_i64":
        # The older version has no null: what is absent goes out empty.
        instead = zero_of(given)

        def step_without_null(out: bytearray, entity: Any) -> None:
            value = get(entity)
            write(out, instead if value is None else value)

        return step_without_null

    def step(out: bytearray, entity: Any) -> None:
        write(out, get(entity))

    return step


def _constant_step(spec: FieldSpec, flexible: bool) -> Write:
    constant = bytearray()
    _writer(spec, spec, flexible)(constant, spec.default)

    def step(out: bytearray, entity: Any) -> None:
        out += constant

    return step


def _tags_step(specs: list[FieldSpec], given: dict[str, FieldSpec]) -> Write:
    known = sorted((spec.tag or 0, spec.name) for spec in specs if spec.name in given)
    by_name = {spec.name: spec for spec in specs}
    tagged = tuple(
        (
            encode_uvarint(tag),
            attrgetter(name),
            given[name].default,
            _writer(by_name[name], given[name], True),
        )
        for tag, name in known
    )

    def step(out: bytearray, entity: Any) -> None:
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

    def step_without_tags(out: bytearray, entity: Any) -> None:
        out.append(0)

    return step if tagged else step_without_tags


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
    encode_text = encode_compact_string if flexible else encode_string

    def write_sized(out: bytearray, value: Any) -> None:
        if value is None and not nullable:
            raise TypeError(f"{spec.name} is None, which the message cannot carry")
        if is_text:
            out += encode_text(value)
        elif value is None:
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
        else:
            out += encode_uvarint(len(value) + 1) if flexible else _INT32.pack(len(value))
            out += value

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
