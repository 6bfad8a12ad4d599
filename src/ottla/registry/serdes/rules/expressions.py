"""Evaluates the expressions of rules: CEL on records and fields, JSONata on records.

A CEL expression may have a guard in front: `guard; expression` runs only if the guard is true. It sees
`message`; a rule about fields also sees `value`, `name`, `fullName`, `typeName` and `tags`.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.rules.fields import Field

EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_NOT_IN_USER = re.compile(r"[\s@<>(),;:\"\\]")
_INSTALL = "install it with pip install 'ottla[rules]'"

SKIPPED: Any = object()
"""What an expression gives if its guard is false."""


def cel_on_record(expression: str, message: Any) -> Any:
    """Return what an expression makes of a record."""
    return _guarded(expression, {"message": _to_cel(message)})


def cel_on_field(expression: str, field: Field, value: Any) -> Any:
    """Return what an expression makes of a field's value."""
    return _guarded(
        expression,
        {
            "value": _to_cel(value),
            "name": _to_cel(field.name),
            "fullName": _to_cel(field.full_name),
            "typeName": _to_cel(field.type_name),
            "tags": _to_cel(sorted(field.tags)),
            "message": _to_cel(field.message),
        },
    )


def jsonata(expression: str, message: Any) -> Any:
    """Return what a JSONata expression makes of a record."""
    return _jsonata(expression).evaluate(_plain(message))


def _guarded(expression: str, names: dict[str, Any]) -> Any:
    guard, has_guard, rest = expression.partition(";")
    if not has_guard:
        return _evaluate(expression, names)
    if guard.strip() and _evaluate(guard, names) is not True:
        return SKIPPED
    return _evaluate(rest, names)


def _evaluate(expression: str, names: dict[str, Any]) -> Any:
    import celpy

    if "now" in expression:
        now = datetime.datetime.now(tz=datetime.UTC)  # noqa: TID251 (a rule may compare with the time)
        names = {**names, "now": celpy.celtypes.TimestampType(now)}
    found = _program(expression).evaluate(names)
    if isinstance(found, Exception):
        raise found
    return _from_cel(found)


@lru_cache(maxsize=1_000)
def _program(expression: str) -> Any:
    try:
        import celpy
    except ImportError:
        raise SerdeError(f"a rule of the schema needs cel-python: {_INSTALL}") from None
    environment = celpy.Environment()
    return environment.program(environment.compile(expression), functions=_functions())


@lru_cache(maxsize=1_000)
def _jsonata(expression: str) -> Any:
    try:
        from jsonata import Jsonata  # type: ignore[import-untyped]
    except ImportError:
        raise SerdeError(f"a rule of the schema needs jsonata-python: {_INSTALL}") from None
    return Jsonata(expression)


def _plain(value: Any) -> Any:
    """Return a Protobuf message as a dict, anything else as it is."""
    if not hasattr(value, "DESCRIPTOR"):
        return value
    from ottla.registry.serdes.protobuf_codec import as_dict

    return as_dict(value)


def _to_cel(value: Any) -> Any:
    from celpy import celtypes as cel

    value = _plain(value)
    if isinstance(value, Mapping):
        return cel.MapType({cel.StringType(str(key)): _to_cel(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return cel.ListType([_to_cel(each) for each in value])
    kinds: tuple[tuple[type, Any], ...] = (
        (bool, cel.BoolType),
        (int, cel.IntType),
        (float, cel.DoubleType),
        (str, cel.StringType),
        (bytes, cel.BytesType),
        (datetime.datetime, cel.TimestampType),
        (datetime.timedelta, cel.DurationType),
    )
    for kind, made in kinds:
        if isinstance(value, kind):
            return made(value)
    if isinstance(value, datetime.date):
        return cel.IntType(value.toordinal() - EPOCH_DAY)
    return cel.StringType(str(value)) if isinstance(value, uuid.UUID) else value


def _from_cel(value: Any) -> Any:
    """Return plain Python: serializers look at types."""
    from celpy import celtypes as cel

    if isinstance(value, dict):
        return {str(key): _from_cel(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_from_cel(each) for each in value]
    kinds: tuple[tuple[type, Any], ...] = (
        (cel.BoolType, bool),
        (cel.IntType, int),
        (cel.UintType, int),
        (cel.DoubleType, float),
        (cel.StringType, str),
        (cel.BytesType, bytes),
    )
    for kind, plain in kinds:
        if isinstance(value, kind):
            return plain(value)
    if isinstance(value, cel.TimestampType):
        return datetime.datetime.fromtimestamp(value.timestamp(), datetime.UTC)
    return value


def _functions() -> dict[str, Any]:
    """Return the functions that data contracts have beside CEL's own."""
    from celpy import celtypes as cel

    def as_cel_function(check: Any) -> Any:
        return lambda text: cel.BoolType(bool(check(str(text))))

    return {
        "isEmail": as_cel_function(_is_email),
        "isHostname": as_cel_function(_is_host_name),
        "isIpv4": as_cel_function(lambda text: _is_made(ipaddress.IPv4Address, text)),
        "isIpv6": as_cel_function(lambda text: _is_made(ipaddress.IPv6Address, text)),
        "isUuid": as_cel_function(lambda text: _is_made(uuid.UUID, text)),
        "isUri": as_cel_function(lambda text: all(urlsplit(text)[:3])),
        "isUriRef": as_cel_function(lambda text: not (urlsplit(text)[4] and not all(urlsplit(text)[0:3:2]))),
    }


def _is_made(kind: Any, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _is_host_name(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    return len(text) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit()


def _is_email(text: str) -> bool:
    user, at, host = text.rpartition("@")
    return bool(
        at and 0 < len(user) <= 64 and not re.search(r"[\s@<>(),;:\"\\]", user) and _is_host_name(host)
    )
