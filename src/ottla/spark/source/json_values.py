"""Parse JSON values into the columns of a schema, one record at a time, as Spark's `from_json` does.

A record that `from_json` refuses in the mode FAILFAST is refused here, and no other record with it. Stricter
than `from_json`: bytes after the object, single quotes, a TINYINT or SMALLINT out of range, a time of day
without a date, and years outside 1 to 9999 are refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from ottla.spark.source.json_times import Zone, parse_date, parse_local_timestamp, parse_timestamp

Convert = Callable[[Any], Any]
"""Converts a parsed JSON value, never null, to what Arrow takes; raises ValueError if it does not fit."""

_SPECIAL_NUMBERS = {
    "NaN": float("nan"),
    "+INF": float("inf"),
    "-INF": float("-inf"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WIDE = Context(prec=100)
_SPACE = re.compile(r"\s+")
_BLANKS = " \t\n\r"


class JsonParser:
    """Parses values into rows of a schema."""

    def __init__(self, schema: Any, zone: Zone) -> None:
        self._fields = [(field.name, _converter(field.type, zone)) for field in schema]
        floats: Callable[[str], Any] = Decimal if _has_decimals(schema) else float
        self._decode = json.JSONDecoder(parse_float=floats).raw_decode

    def parse(self, value: bytes | None) -> list[Any] | None:
        """Return the fields of a record, None if it is blank; raise ValueError if it does not fit."""
        text = value.decode().strip(_BLANKS) if value is not None else ""
        if not text:
            return None
        found, end = self._decode(text)
        if end != len(text):
            raise ValueError(f"there is more after the object: {text[end : end + 20]!r}")
        if type(found) is not dict:
            raise ValueError(f"it is not an object but {_kind(found)}")
        row = []
        for name, convert in self._fields:
            given = found.get(name)
            if given is not None:
                try:
                    given = convert(given)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
            row.append(given)
        return row


def parse_json(values: Sequence[bytes | None], schema: Any, zone: Zone) -> tuple[Any, dict[int, str]]:
    """Return values as an Arrow record batch, and why some are invalid; their fields are null."""
    parser = JsonParser(schema, zone)
    nothing: list[Any] = [None] * len(schema)
    rows: list[list[Any]] = []
    errors: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            rows.append(parser.parse(value) or nothing)
        except (ValueError, RecursionError) as error:
            errors[row] = str(error)
            rows.append(nothing)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return _record_batch(arrays, schema, len(rows)), errors


def _record_batch(arrays: list[Any], schema: Any, rows: int) -> Any:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["nothing"])


def _has_decimals(schema: Any) -> bool:
    return "decimal" in str(schema)


def _converter(kind: Any, zone: Zone) -> Convert:
    """Return the converter of an Arrow type."""
    if pa.types.is_struct(kind):
        return _struct(kind, zone)
    if pa.types.is_map(kind):
        return _map(kind, zone)
    if pa.types.is_list(kind):
        return _list(kind, zone)
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    if pa.types.is_integer(kind):
        return _integer(kind.bit_width)
    if pa.types.is_timestamp(kind):
        return (lambda value: parse_timestamp(value, zone)) if kind.tz else parse_local_timestamp
    for matches, convert in _SIMPLE:
        if matches(kind):
            return convert
    raise ValueError(f"no JSON value has the type {kind}")


def _struct(kind: Any, zone: Zone) -> Convert:
    fields = [(field.name, _converter(field.type, zone)) for field in kind]

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _unfit(value, "an object")
        return {name: None if (given := value.get(name)) is None else of(given) for name, of in fields}

    return convert


def _map(kind: Any, zone: Zone) -> Convert:
    if not pa.types.is_string(kind.key_type):
        raise ValueError("the keys of a map must be strings")
    of = _converter(kind.item_type, zone)

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _unfit(value, "an object")
        return [(_clean(key), None if given is None else of(given)) for key, given in value.items()]

    return convert


def _list(kind: Any, zone: Zone) -> Convert:
    of = _converter(kind.value_type, zone)

    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise _unfit(value, "an array")
        return [None if given is None else of(given) for given in value]

    return convert


def _decimal(precision: int, scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        if type(value) is str and _DECIMAL.fullmatch(text := value.replace(",", "")):
            value = Decimal(text)
        if type(value) is int:
            value = Decimal(value)
        if type(value) is not Decimal or value.adjusted() > precision:
            raise _unfit(value, f"a decimal of {precision} digits")
        rounded = value.quantize(unit, ROUND_HALF_UP, _WIDE)
        if rounded and rounded.adjusted() + scale >= precision:
            raise _unfit(value, f"a decimal of {precision} digits")
        return rounded

    return convert


def _integer(bits: int) -> Convert:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def convert(value: Any) -> int:
        if type(value) is not int:
            raise _unfit(value, "an integer")
        if not least <= value <= most:
            raise ValueError(f"{value} does not fit {bits} bits")
        return value

    return convert


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _unfit(value, "a boolean")
    return value


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int or type(value) is Decimal:
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    special = _SPECIAL_NUMBERS.get(value) if type(value) is str else None
    if special is None:
        raise _unfit(value, "a number")
    return special


def _string(value: Any) -> str:
    return _clean(value) if type(value) is str else _clean(_as_text(value))


def _as_text(value: Any) -> str:
    """Return another value than a string as JSON, as Spark writes it."""
    if type(value) is dict:
        inner = ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_as_text(of)}" for key, of in value.items())
        return f"{{{inner}}}"
    if type(value) is list:
        return f"[{','.join(map(_as_text, value))}]"
    if type(value) is float or type(value) is Decimal:
        return _as_java_double(float(value))
    return json.dumps(value, ensure_ascii=False)


def _as_java_double(value: float) -> str:
    """Return a double as Java writes it."""
    if value != value or value in (float("inf"), float("-inf")):
        return f'"{str(value).replace("nan", "NaN").replace("inf", "Infinity")}"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + int(exponent)
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def _clean(text: str) -> str:
    """Return a text without halves of surrogate pairs, which UTF-8 cannot have; they become `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _binary(value: Any) -> bytes:
    if type(value) is not str:
        raise _unfit(value, "a string in base64")
    try:
        return base64.b64decode(_SPACE.sub("", value), validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64: {error}") from None


_SIMPLE: tuple[tuple[Callable[[Any], bool], Convert], ...] = (
    (pa.types.is_string, _string),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_floating, _double),
    (pa.types.is_binary, _binary),
    (pa.types.is_date, parse_date),
    (pa.types.is_null, lambda value: None),
)


def _unfit(value: Any, wanted: str) -> ValueError:
    return ValueError(f"{json.dumps(value, default=str)[:60]} is not {wanted}")


def _kind(value: Any) -> str:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
