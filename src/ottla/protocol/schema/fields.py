"""The fields of kio's message classes, as a list of `FieldSpec`s, and the conversion of their values.

kio generates one frozen dataclass per message, struct and version from Kafka's own schemas. This module reads
those classes; decoding.py and encoding.py compile functions from them.

Durations and dates are milliseconds on the wire. Whatever a peer sends becomes a value: those that Python
cannot represent are clamped, ids of all zeros and dates of -1 are None, and unknown error codes are
UNKNOWN_SERVER_ERROR, as in Kafka's own clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import EllipsisType, NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode

STRUCT = "struct"


EntityType = type[Any]
"""One of kio's message classes; mypy cannot know which, as they are looked up by number."""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a message or struct."""

    name: str
    kind: str
    """Kafka's type of the field, or of its elements; STRUCT for structs."""
    struct: EntityType | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: object
    """What the field holds when the wire does not carry it."""


_known_specs: dict[EntityType, tuple[FieldSpec, ...]] = {}


def specs_of(entity: EntityType) -> tuple[FieldSpec, ...]:
    """Return the fields of `entity` in wire order."""
    specs = _known_specs.get(entity)
    if specs is None:
        specs = _known_specs[entity] = tuple(_spec(field) for field in fields(entity))
    return specs


def _spec(field: Any) -> FieldSpec:
    inner, nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        element, ellipsis = get_args(inner)
        if not isinstance(ellipsis, EllipsisType):
            raise TypeError(f"{field.name} is no array of one type: {field.type}")
        # Ids are "optional" in every position: kio reads the zero id as None.
        inner, _ = _without_none(element)
    struct: EntityType | None = inner if _is_struct(inner) else None
    kind = STRUCT if struct is not None else field.metadata["kafka_type"]
    default = field.default
    if default is MISSING:
        default = _zero(kind, struct, is_array, nullable)
    return FieldSpec(
        field.name, kind, struct, is_array, nullable and kind != "uuid", field.metadata.get("tag"), default
    )


def _is_struct(annotation: Any) -> bool:
    return is_dataclass(annotation)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """Return the type inside `X | None`, and whether there was a None."""
    if get_origin(annotation) is not UnionType:
        return annotation, False
    (inner,) = (part for part in get_args(annotation) if part is not NoneType)
    return inner, True


_ZEROS: dict[str, object] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(),
    "timedelta_i64": timedelta(),
    "datetime_i64": datetime.fromtimestamp(0, UTC),
}


def _zero(kind: str, struct: EntityType | None, is_array: bool, nullable: bool) -> object:
    if nullable:
        return None
    if is_array:
        return ()
    if struct is not None:
        return struct(**{spec.name: spec.default for spec in specs_of(struct)})
    return _ZEROS.get(kind, 0)


def zero_of(spec: FieldSpec) -> object:
    """Return the value that stands for nothing in a field that cannot be null."""
    return _zero(spec.kind, spec.struct, spec.is_array, False)


# Kinds of a fixed size: their code for the struct module, and their size.
FIXED_KINDS: dict[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "error_code": ("h", 2),
    "timedelta_i32": ("i", 4),
    "timedelta_i64": ("q", 8),
    "datetime_i64": ("q", 8),
    "uuid": ("16s", 16),
}


def is_fixed(spec: FieldSpec) -> bool:
    """Return whether the field takes the same number of bytes whatever it holds."""
    return spec.kind in FIXED_KINDS and not spec.is_array


def has_tagged_fields(entity: EntityType) -> bool:
    """Return whether `entity` ends with a section of tagged fields.

    Flexible structs do, unless they declare `__tagged__ = False`: none of Kafka's, one of our own.
    """
    return bool(entity.__flexible__ and getattr(entity, "__tagged__", True))


def smallest_size(entity: EntityType) -> int:
    """Return the fewest bytes in which one `entity` can be written."""
    flexible: bool = entity.__flexible__
    tags = 1 if has_tagged_fields(entity) else 0
    untagged = (spec for spec in specs_of(entity) if spec.tag is None)
    return tags + sum(_smallest_field(spec, flexible) for spec in untagged)


def _smallest_field(spec: FieldSpec, flexible: bool) -> int:
    if spec.is_array:
        return 1 if flexible else 4
    if spec.struct is not None:
        return 1 if spec.nullable else smallest_size(spec.struct)
    if spec.kind == "string":
        return 1 if flexible else 2
    if spec.kind in ("bytes", "records"):
        return 1 if flexible else 4
    return FIXED_KINDS[spec.kind][1]


_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_MAX_MS = (timedelta.max - timedelta(days=1)) // _MILLISECOND
_INT32_MAX = 2**31 - 1
_ZERO_ID = bytes(16)


class _ErrorCodes(dict[int, ErrorCode]):
    """Kafka's error codes by number."""

    def __missing__(self, value: int) -> ErrorCode:
        return ErrorCode.unknown_server_error


_ERROR_CODES = _ErrorCodes({int(code): code for code in ErrorCode})


def _to_timedelta(value: int) -> timedelta:
    return timedelta(milliseconds=max(-_MAX_MS, min(value, _MAX_MS)))


def _from_timedelta_i32(value: timedelta) -> int:
    return max(-_INT32_MAX - 1, min(value // _MILLISECOND, _INT32_MAX))


def _from_timedelta_i64(value: timedelta) -> int:
    return value // _MILLISECOND


def _to_datetime(value: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=max(0, min(value, _LATEST_MS)))


def _to_nullable_datetime(value: int) -> datetime | None:
    return None if value < 0 else _to_datetime(value)


def _from_datetime(value: datetime | None) -> int:
    return -1 if value is None else (value - _EPOCH) // _MILLISECOND


def _to_uuid(value: bytes) -> UUID | None:
    return None if value == _ZERO_ID else UUID(bytes=value)


def _from_uuid(value: UUID | None) -> bytes:
    return _ZERO_ID if value is None else value.bytes


_Convert = Callable[[Any], Any]

_CONVERTERS: dict[str, tuple[_Convert, _Convert]] = {
    "error_code": (_ERROR_CODES.__getitem__, int),
    "timedelta_i32": (_to_timedelta, _from_timedelta_i32),
    "timedelta_i64": (_to_timedelta, _from_timedelta_i64),
    "datetime_i64": (_to_datetime, _from_datetime),
    "uuid": (_to_uuid, _from_uuid),
}

CONVERTED_KINDS = frozenset(_CONVERTERS)
"""The kinds of fields whose values are converted."""


def from_wire(spec: FieldSpec) -> _Convert:
    """Return the function that converts the field's number or bytes to its value."""
    if spec.kind == "datetime_i64" and spec.nullable:
        return _to_nullable_datetime
    return _CONVERTERS[spec.kind][0]


def to_wire(kind: str) -> _Convert:
    """Return the function that converts a value of `kind` to a number or bytes."""
    return _CONVERTERS[kind][1]
