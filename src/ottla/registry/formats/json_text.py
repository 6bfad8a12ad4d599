"""Reads and writes JSON text as Jackson does, since the text of a schema is its identity.

Confluent's registry hashes and compares the text that Jackson writes. It differs from Python's in numbers
(`1.0E10` for a double, `1E+10` for a decimal), in escapes (`\\u001F`) and in that it has no space after `,`
and `:`.
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from ottla.registry.formats.limits import MAX_JSON_DEPTH, InvalidSchema, json_depth

Json = Any
"""What a JSON text holds: dict, list, str, int, float or Decimal, bool, None."""

MAX_DIGITS = 1_000
"""Longest number; Jackson has the same limit."""

_ESCAPE = re.compile(r'[\x00-\x1f"\\]')
_SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def read_json(text: str, *, exact: bool = False) -> Json:
    """Parse JSON text; `exact` keeps the digits of decimal numbers as they are written."""
    if json_depth(text) > MAX_JSON_DEPTH:
        raise InvalidSchema(f"it is nested deeper than {MAX_JSON_DEPTH} levels of JSON")
    try:
        value = json.loads(
            text,
            parse_float=_decimal if exact else float,
            parse_int=_integer,
            parse_constant=_no_constant,
        )
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise InvalidSchema("it holds half of a surrogate pair") from None
    except RecursionError:
        raise InvalidSchema("it is nested too deep") from None
    except ValueError as error:
        raise InvalidSchema(f"it is not JSON: {error}") from None
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    return int(digits)


def _decimal(digits: str) -> decimal.Decimal:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    number = decimal.Decimal(digits)
    if number and abs(number.adjusted()) > MAX_DIGITS:
        raise ValueError(f"the exponent of a number is larger than {MAX_DIGITS}")
    return number if number else number.copy_abs()  # Java's decimals have no negative zero


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


def write_json(value: Json, *, sort: bool = False) -> str:
    """Write a value as Jackson does, with the keys of objects in order of the text or sorted."""
    parts: list[str] = []
    _write(value, parts.append, sort)
    return "".join(parts)


def quote(text: str) -> str:
    """Write one string with Jackson's escapes."""
    return '"' + _ESCAPE.sub(lambda match: _escape(match.group()), text) + '"'


def _escape(character: str) -> str:
    return _SHORT.get(character) or f"\\u{ord(character):04X}"


def _write(value: Json, put: Callable[[str], object], sort: bool) -> None:
    if isinstance(value, str):
        put(quote(value))
    elif isinstance(value, dict):
        put("{")
        keys = sorted(value, key=utf16_key) if sort else value
        for number, key in enumerate(keys):
            put(("," if number else "") + quote(key) + ":")
            _write(value[key], put, sort)
        put("}")
    elif isinstance(value, list | tuple):
        put("[")
        for number, item in enumerate(value):
            if number:
                put(",")
            _write(item, put, sort)
        put("]")
    else:
        put(_scalar(value))


def _scalar(value: Json) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, float):
        return java_double(value)
    return str(value)


def utf16_key(text: str) -> bytes:
    """Return the key that sorts strings as Java does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def java_double(number: float) -> str:
    """Write a double as `Double.toString` does."""
    if number != number:
        return '"NaN"'
    if number in (float("inf"), float("-inf")):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        text = format(decimal.Decimal(repr(number)), "f")
        return text if "." in text else text + ".0"
    sign, digits, exponent = decimal.Decimal(repr(number)).normalize().as_tuple()
    power = int(exponent) + len(digits) - 1
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{power}"


def java_hash_order(names: Iterable[str]) -> list[str]:
    """Return strings in the order in which Java's HashMap iterates over them."""
    ordered = list(names)
    capacity = 16
    while len(ordered) > capacity * 3 // 4:
        capacity *= 2
    return sorted(ordered, key=lambda name: _spread_hash(name) & (capacity - 1))


def _spread_hash(text: str) -> int:
    number = 0
    units = utf16_key(text)
    for position in range(0, len(units), 2):
        number = (31 * number + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return number ^ (number >> 16)
