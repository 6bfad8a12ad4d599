"""Values in another type, as Connect's Cast has them: Java's rules for numbers and texts."""

from __future__ import annotations

import base64
import math
import re
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect.converters import header_values
from ottla.connect.converters.plain import as_text
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import to_json
from ottla.connect.errors import DataError

_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)")


def cast(value: Any, kind: str) -> Any:
    """Return a value in another type; raise DataError."""
    if value is None:
        return None
    if isinstance(value, dict | list):
        raise DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")
    if kind == s.STRING:
        return _text(value)
    if isinstance(value, bytes):
        raise DataError(f"Unexpected value in Cast transformation: {type(value).__name__}")
    if isinstance(value, date | datetime | time):
        value = to_json(None, value)
    try:
        if kind in s.INTEGERS:
            return _integer(value, s.INTEGERS[kind])
        if kind in s.FLOATS:
            return _float(value)
        return value.lower() == "true" if isinstance(value, str) else int(value) != 0
    except (ValueError, OverflowError):
        raise DataError(f"Value ({value}) was out of range for requested data type") from None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    is_time = isinstance(value, date | datetime | time)
    return header_values.text_of(value) if is_time else as_text(value)


def _float(value: Any) -> float:
    if isinstance(value, str):
        if not _FLOAT.fullmatch(value.strip()):
            raise ValueError(value)
        value = value.strip().rstrip("fFdD") if value.strip()[-1] in "fFdD" else value
    return float(value)


def _integer(value: Any, bits: int) -> int:
    """Return an integer of so many bits: numbers are cut as in Java, texts must fit."""
    limit = 1 << bits - 1
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value) or not -limit <= (number := int(value)) < limit:
            raise ValueError(value)
        return number
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        limit = 1 << max(bits, 32) - 1
        nearest = max(-limit, min(limit - 1, value))
        return cut(int(nearest), bits)
    return cut(int(value), bits) if isinstance(value, Decimal | int) else 0


def cut(number: int, bits: int) -> int:
    """Return the lowest bits of a number, as a signed number."""
    limit = 1 << bits - 1
    return (number + limit) % (1 << bits) - limit
