"""Fields that are numbers or bytes on the wire and something better in kio's classes.

Durations and dates are milliseconds on the wire. Whatever a peer sends becomes a value: those that
Python cannot hold are clamped, ids of all zeros and dates of -1 are None, and error codes of the
future are unknown errors, as in Kafka's own clients.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.protocol.message_schema import FieldSpec

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LONGEST_MS = (timedelta.max - timedelta(days=1)) // _MILLISECOND
_INT32_MAX = 2**31 - 1
_ZERO_ID = bytes(16)
_ERROR_CODES = {int(code): code for code in ErrorCode}


def _to_error_code(value: int) -> ErrorCode:
    return _ERROR_CODES.get(value, ErrorCode.unknown_server_error)


def _from_error_code(value: ErrorCode | int) -> int:
    return int(value)


def _to_timedelta(value: int) -> timedelta:
    return timedelta(milliseconds=max(-_LONGEST_MS, min(value, _LONGEST_MS)))


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
    "error_code": (_to_error_code, _from_error_code),
    "timedelta_i32": (_to_timedelta, _from_timedelta_i32),
    "timedelta_i64": (_to_timedelta, _from_timedelta_i64),
    "datetime_i64": (_to_datetime, _from_datetime),
    "uuid": (_to_uuid, _from_uuid),
}

CONVERTED_KINDS = frozenset(_CONVERTERS)
"""The kinds of fields that this module is about."""


def from_wire(spec: FieldSpec) -> _Convert:
    """Return what turns the field's number or bytes into its value."""
    if spec.kind == "datetime_i64" and spec.nullable:
        return _to_nullable_datetime
    return _CONVERTERS[spec.kind][0]


def to_wire(kind: str) -> _Convert:
    """Return what turns a value of `kind` into a number or bytes."""
    return _CONVERTERS[kind][1]
