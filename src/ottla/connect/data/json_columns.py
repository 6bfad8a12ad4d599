"""Whole columns as JSON texts of Connect's schemas, and back: what json_codec.py does for one value.

What a column has no fast way for is encoded value by value. FastPathMiss is raised for what is left to the
general way.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from ottla.connect.data import schema as s
from ottla.connect.data.json_codec import NULL, FastPathMiss, encoder_of
from ottla.connect.data.json_form import DECIMALS
from ottla.connect.data.schema import Schema

_QUOTE, _BACKSLASH, _SPACE = 34, 92, 32


def quoted_texts(column: Any) -> Any:
    """Return texts as JSON strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if has_special(column):
        return pa.array([None if each is None else encode_basestring(each) for each in column.to_pylist()])
    return pc.binary_join_element_wise('"', column, '"', "")


def has_special(column: Any) -> bool:
    """Return whether any text has a character that JSON escapes."""
    import numpy as np

    offsets, data = column.buffers()[1:3]
    if data is None:
        return False
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    octets = np.frombuffer(data, np.uint8)[edges[0] : edges[-1]]
    return bool(((octets < _SPACE) | (octets == _QUOTE) | (octets == _BACKSLASH)).any())


def decimal_texts(column: Any, scale: int) -> Any:
    """Return texts of decimals with this scale as JSON strings, in base64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    form = rf"^-?\d+\.\d{{{scale}}}$" if scale else r"^-?\d+$"
    if not pc.all(pc.match_substring_regex(column, form), min_count=0).as_py():
        raise FastPathMiss
    return pa.array([None if each is None else _base64_of(each) for each in column.to_pylist()], pa.string())


def _base64_of(text: str) -> str:
    number = int(text.replace(".", ""))
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return f'"{base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()}"'


def json_texts(
    column: Any, schema: Schema, convert: Callable[[str], Any] | None, *, decimals: str = "BASE64"
) -> Any:
    """Return texts, of which `convert` makes values of a schema, as JSON texts; nulls stay."""
    import pyarrow as pa

    if convert is None and schema.type == s.STRING:
        return quoted_texts(column)
    if schema.name == s.DECIMAL_NAME and decimals != "NUMERIC":
        return decimal_texts(column, int(schema.parameters.get("scale", "0")))
    encode = encoder_of(schema, decimals)
    make = convert if convert is not None else str
    return pa.array(
        [None if each is None else encode(make(each)) for each in column.to_pylist()], pa.string()
    )


def objects(names: Sequence[str], columns: Sequence[Any]) -> list[Any]:
    """Return the parts of JSON objects: what is to be joined row by row."""
    parts: list[Any] = []
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [("," if number else "{") + encode_basestring(name) + ":", column.fill_null(NULL)]
    return [*parts, "}"] if parts else ["{}"]


def joined(parts: Sequence[Any]) -> Any:
    """Return parts joined row by row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    merged: list[Any] = []
    for each in parts:  # neighbours that are the same in all rows are joined once
        if isinstance(each, str) and merged and isinstance(merged[-1], str):
            merged[-1] += each
        else:
            merged.append(each)
    return pc.binary_join_element_wise(*merged, pa.scalar("")).cast(pa.binary())


# And back.

_PLAIN = {s.STRING: "string", s.BOOLEAN: "bool", s.FLOAT32: "float64", s.FLOAT64: "float64"}


def arrow_type(schema: Schema) -> Any:
    """Return the type of a field in parsed JSON; raise FastPathMiss if values need the general way."""
    import pyarrow as pa

    if schema.default is not None or (schema.name in s.LOGICAL_NAMES and schema.name != s.DECIMAL_NAME):
        raise FastPathMiss
    if schema.type in s.INTEGERS:
        return getattr(pa, schema.type)()
    if schema.type == s.BYTES:
        return pa.string()
    if schema.type not in _PLAIN:
        raise FastPathMiss
    return getattr(pa, {"bool": "bool_"}.get(_PLAIN[schema.type], _PLAIN[schema.type]))()


def payloads(values: Any, start: bytes) -> Any:
    """Return the objects between the start of each value and its last brace, as lines; raise FastPathMiss.

    Arrow's parser crashes where all lines are null, and makes a row of nulls of one null among objects.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.null_count or not pc.all(pc.starts_with(values, start)).as_py():
        raise FastPathMiss
    offsets, data = values.buffers()[1:3]
    edges = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    octets = np.frombuffer(data, np.uint8)
    if (octets[edges[1:] - 1] != ord("}")).any():
        raise FastPathMiss
    cut = 1 if start else 0
    begin, end = edges[:-1] + len(start), edges[1:] - cut
    if (octets[begin] != ord("{")).any() or (octets[end - 1] != ord("}")).any():
        raise FastPathMiss
    spans = np.stack((begin, end), axis=1).ravel().astype(np.int32)
    pieces = pa.Array.from_buffers(pa.binary(), len(spans) - 1, [None, pa.py_buffer(spans), data])
    found = pieces.take(pa.array(np.arange(0, len(spans) - 1, 2)))
    if pc.any(pc.match_substring(found, b"\n")).as_py():
        raise FastPathMiss
    return found


def parsed(lines: Any, fields: Any) -> Any:
    """Return a table of JSON objects, one in each line; raise FastPathMiss."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json as pj

    text = pc.binary_join_element_wise(lines, pa.scalar(b"\n"), pa.scalar(b"")).buffers()[2]
    options = pj.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore")
    try:
        found = pj.read_json(
            pa.BufferReader(text), pj.ReadOptions(use_threads=False, block_size=len(text) + 1), options
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise FastPathMiss from None
    if found.num_rows != len(lines) or found.schema != fields:
        raise FastPathMiss
    return found.combine_chunks()


def decimals_of(column: Any, scale: int) -> Any:
    """Return decimals in base64 as their texts."""
    import pyarrow as pa

    if (found := _small_decimals(column, scale)) is not None:
        return found

    def text(each: str) -> str:
        number = int.from_bytes(base64.b64decode(each), "big", signed=True)
        return f"{DECIMALS.scaleb(Decimal(number), -scale):f}"

    try:
        return pa.array([None if each is None else text(each) for each in column.to_pylist()], pa.string())
    except ValueError:
        raise FastPathMiss from None


_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PAD, _NO_DIGIT = ord("="), 255
_MAX_DIGITS, _MAX_OCTETS = 12, 7
"""Of numbers whose bits fit into 64."""
_MAX_SCALE = 38
"""Of Arrow."""


def _small_decimals(column: Any, scale: int) -> Any:
    """Return decimals in base64 as decimals of Arrow; None if one has many digits, or is no base64."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.fill_null("AA==")
    offsets, data = texts.buffers()[1:3]
    edges = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    sizes = edges[1:] - edges[:-1]
    if not len(sizes) or not 0 <= scale <= _MAX_SCALE:
        return None
    if sizes.min() < 4 or sizes.max() > _MAX_DIGITS or (sizes % 4).any():
        return None
    values = np.full(256, _NO_DIGIT, np.uint8)
    values[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64, dtype=np.uint8)
    octets = np.frombuffer(data, np.uint8)
    pads = (octets[edges[1:] - 1] == _PAD).astype(np.int64) + (octets[edges[1:] - 2] == _PAD)
    count = sizes // 4 * 3 - pads
    if count.max() > _MAX_OCTETS:
        return None
    bits = np.zeros(len(sizes), np.int64)
    for each in range(_MAX_DIGITS):
        is_digit = each < sizes - pads
        digits = values[octets[np.where(is_digit, edges[:-1] + each, edges[:-1])]]
        if (digits == _NO_DIGIT).any():
            return None
        bits = np.where(is_digit, bits << 6 | digits, bits)
    bits >>= (sizes - pads) * 6 - count * 8
    bits -= (bits >> (count * 8 - 1)) << (count * 8)
    pairs = np.stack((bits, bits >> 63), axis=1)
    buffers = [None, pa.py_buffer(pairs.tobytes())]
    numbers = pa.Array.from_buffers(pa.decimal128(_MAX_SCALE, scale), len(bits), buffers)
    return numbers if not column.null_count else pc.if_else(column.is_valid(), numbers, None)


def octets_of(column: Any) -> Any:
    """Return bytes in base64 as PostgreSQL's texts of them."""
    import pyarrow as pa

    try:
        found = [
            None if each is None else "\\x" + base64.b64decode(each).hex() for each in column.to_pylist()
        ]
    except ValueError:
        raise FastPathMiss from None
    return pa.array(found, pa.string())
