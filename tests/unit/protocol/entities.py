"""Random messages of any of kio's classes, and what they become in another version."""

from __future__ import annotations

import io
import uuid
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer

from ottla.protocol.schema.fields import FieldSpec, specs_of, zero_of

EVERY_API = sorted(api_key_map)
ERROR_CODES = list(ErrorCode)
SIZES = (0, 1, 3, 126, 127, 200)
WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def versions_of(api_key: int) -> list[int]:
    """Return every version kio knows, oldest first."""
    return sorted(schema_name_map[api_key_map[api_key]])


def kio_bytes(entity: Any) -> bytes:
    """Return the message as kio writes it."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def random_entity(random: Random, cls: type[Any]) -> Any:
    """Return a message with all sorts of values in it."""
    return cls(**{spec.name: _random_field(random, spec) for spec in specs_of(cls)})


def _random_field(random: Random, spec: FieldSpec) -> Any:
    # kio cannot write a tagged null unless that is the default, which is not written.
    if spec.nullable and (spec.tag is None or spec.default is None) and random.random() < 0.3:
        return None
    if spec.tag is not None and random.random() < 0.4:
        return spec.default
    if spec.is_array:
        return tuple(_random_value(random, spec) for _ in range(random.choice((0, 1, 2, 3))))
    return _random_value(random, spec)


def _random_value(random: Random, spec: FieldSpec) -> Any:
    if spec.struct is not None:
        return random_entity(random, spec.struct)
    kind = spec.kind
    if kind in WIDTHS:
        return random.getrandbits(WIDTHS[kind]) - 2 ** (WIDTHS[kind] - 1)
    if kind == "string":
        return "".join(random.choices("aZ9-é漢🦦", k=random.choice(SIZES)))
    if kind in ("bytes", "records"):
        return random.randbytes(random.choice(SIZES))
    if kind == "uuid":
        return random.choice((None, uuid.UUID(int=random.getrandbits(128) | 1)))
    if kind == "error_code":
        return random.choice(ERROR_CODES)
    if kind == "timedelta_i32":
        return timedelta(milliseconds=random.getrandbits(32) - 2**31)
    if kind == "timedelta_i64":
        return timedelta(milliseconds=random.getrandbits(41) - 2**40)
    if kind == "datetime_i64":
        return datetime.fromtimestamp(random.getrandbits(32), UTC)
    return {"bool": random.random() < 0.5, "uint16": random.getrandbits(16), "float64": random.random()}[kind]


def as_class(entity: Any, cls: type[Any]) -> Any:
    """Return the message in another version: common fields kept, the rest with their defaults."""
    given = {spec.name: spec for spec in specs_of(type(entity))}
    values = {}
    for spec in specs_of(cls):
        if spec.name not in given:
            values[spec.name] = spec.default
            continue
        value = getattr(entity, spec.name)
        if value is None and given[spec.name].nullable and not spec.nullable:
            value = None if spec.kind == "datetime_i64" else zero_of(given[spec.name])
        values[spec.name] = _convert(value, spec)
    return cls(**values)


def _convert(value: Any, spec: FieldSpec) -> Any:
    if spec.struct is None or value is None:
        return value
    if spec.is_array:
        return tuple(as_class(element, spec.struct) for element in value)
    return as_class(value, spec.struct)
