"""Encode and decode JSON of Connect's schemas with functions that are made once for each schema.

They do what `to_json` and `from_json` of json_form.py do, for values of the common types. For anything else
they raise FastPathMiss: the caller then uses the general encoder, which also reports what is wrong.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from ottla.connect.data import schema as s
from ottla.connect.data.json_form import DECIMALS, unscaled
from ottla.connect.data.schema import Schema

Encode = Callable[[Any], str]
Decode = Callable[[Any], Any]
NULL = "null"


class FastPathMiss(Exception):
    """A value or a type that only the general encoder handles."""


def _no_fast_path(value: Any) -> Any:
    raise FastPathMiss


class Constant(dict[str, Any]):
    """A struct that is part of many values, and never changed: its text is made once. Copies are dicts."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this struct is shared by records: copy it to change it")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = setdefault = clear = _refuse

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


def unshared(value: Any) -> Any:
    """Return a value that a transform may change: without structs that other records have, too."""
    if type(value) is not dict or not any(type(each) is Constant for each in value.values()):
        return value
    return {name: dict(each) if type(each) is Constant else each for name, each in value.items()}


def encoder_of(schema: Schema, decimals: str) -> Encode:
    """Return a function that returns the JSON text of a value; it raises FastPathMiss."""
    encode = _encoder(schema, decimals)
    if not schema.optional or schema.default is not None:
        return encode
    return lambda value: NULL if value is None else encode(value)


def _encoder(schema: Schema, decimals: str) -> Encode:
    """Return the function for values that are not null."""
    if schema.default is not None:
        return _no_fast_path
    return _struct_encoder(schema, decimals) if schema.type == s.STRUCT else _leaf_encoder(schema, decimals)


def _struct_encoder(schema: Schema, decimals: str) -> Encode:
    fields = [
        (each.name, _encoder(each.schema, decimals), NULL if _may_be_null(each.schema) else None)
        for each in schema.fields
    ]
    names = (encode_basestring(each.name).replace("%", "%%") for each in schema.fields)
    form = "{" + ",".join(f"{each}:%s" for each in names) + "}"
    last: list[Any] = [None, ""]

    def encode(value: Any) -> str:
        if type(value) is not dict:
            if type(value) is not Constant:
                raise FastPathMiss
            if last[0] is value:
                return str(last[1])
        get = value.get
        parts = [null if (each := get(name)) is None else one(each) for name, one, null in fields]
        if None in parts:
            raise FastPathMiss
        text = form % tuple(parts)
        if type(value) is Constant:
            last[:] = value, text
        return text

    return encode


def _may_be_null(schema: Schema) -> bool:
    return schema.optional and schema.default is None


def _leaf_encoder(schema: Schema, decimals: str) -> Encode:
    kind = schema.type
    if schema.name == s.DECIMAL_NAME and kind == s.BYTES and decimals != "NUMERIC":
        return _decimal_encoder(int(schema.parameters.get("scale", "0")))
    if schema.name in s.LOGICAL_NAMES:
        return _no_fast_path
    if kind in s.INTEGERS:
        return _integer_encoder(s.INTEGERS[kind])
    return {s.STRING: _text, s.BOOLEAN: _boolean, s.BYTES: _bytes, s.FLOAT32: _float, s.FLOAT64: _float}.get(
        kind, _no_fast_path
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise FastPathMiss
    return encode_basestring(value)


def _boolean(value: Any) -> str:
    if type(value) is not bool:
        raise FastPathMiss
    return "true" if value else "false"


def _bytes(value: Any) -> str:
    if type(value) is not bytes:
        raise FastPathMiss
    return f'"{base64.b64encode(value).decode()}"'


def _float(value: Any) -> str:
    if type(value) is not float or not math.isfinite(value):
        raise FastPathMiss
    return repr(value)


def _integer_encoder(bits: int) -> Encode:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def encode(value: Any) -> str:
        if type(value) is not int or not low <= value <= high:
            raise FastPathMiss
        return str(value)

    return encode


def _decimal_encoder(scale: int) -> Encode:
    def encode(value: Any) -> str:
        if type(value) is not Decimal:
            raise FastPathMiss
        return f'"{base64.b64encode(unscaled(value, scale)).decode()}"'

    return encode


def decoder_of(schema: Schema) -> Decode:
    """Return a function that returns the value of parsed JSON; it raises FastPathMiss."""
    default, decode = schema.default, _decoder(schema)
    return lambda found: default if found is None else decode(found)


def _decoder(schema: Schema) -> Decode:
    """Return the function for what is not null."""
    if schema.type == s.STRUCT:
        return _struct_decoder(schema)
    return _no_fast_path if schema.type in (s.MAP, s.ARRAY) else _leaf_decoder(schema)


def _struct_decoder(schema: Schema) -> Decode:
    fields = [
        (each.name, plain, _decoder(each.schema) if plain else decoder_of(each.schema))
        for each in schema.fields
        for plain in [_plain_types(each.schema)]
    ]

    def decode(found: Any) -> Any:
        if type(found) is not dict:
            raise FastPathMiss
        get = found.get
        return {
            name: value if type(value := get(name)) in kinds else one(value) for name, kinds, one in fields
        }

    return decode


def _plain_types(schema: Schema) -> frozenset[type]:
    """Return the types of parsed JSON that are values as they are."""
    if schema.default is not None:
        return frozenset()
    kinds: dict[str, type] = {s.STRING: str, s.BOOLEAN: bool, s.FLOAT32: float, s.FLOAT64: float}
    found = {type(None)}
    if schema.type in kinds and schema.name not in s.LOGICAL_NAMES:
        found.add(kinds[schema.type])
    return frozenset(found)


def _leaf_decoder(schema: Schema) -> Decode:
    kind = schema.type
    if schema.name == s.DECIMAL_NAME:
        return _decimal_decoder(int(schema.parameters.get("scale", "0")))
    if schema.name in s.LOGICAL_NAMES:
        return _no_fast_path
    if kind in s.INTEGERS:
        return _integer_decoder(s.INTEGERS[kind])
    if kind == s.BYTES:
        return _bytes_of
    if kind in s.FLOATS:
        return _float_of
    plain = tuple(_plain_types(schema))

    def decode(found: Any) -> Any:
        if type(found) not in plain:
            raise FastPathMiss
        return found

    return decode


def _integer_decoder(bits: int) -> Decode:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def decode(found: Any) -> Any:
        if type(found) is not int or not low <= found <= high:
            raise FastPathMiss
        return found

    return decode


def _float_of(found: Any) -> float:
    if type(found) is not float and type(found) is not int:
        raise FastPathMiss
    return float(found)


def _bytes_of(found: Any) -> bytes:
    if type(found) is not str:
        raise FastPathMiss
    return base64.b64decode(found)


def _decimal_decoder(scale: int) -> Decode:
    def decode(found: Any) -> Decimal:
        number = int.from_bytes(_bytes_of(found), "big", signed=True)
        return DECIMALS.scaleb(Decimal(number), -scale)

    return decode
