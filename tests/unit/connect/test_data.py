"""Converters and the JSON form of Connect's data."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.connect.converters.plain import (
    BooleanConverter,
    ByteArrayConverter,
    JsonConverter,
    LongConverter,
    SimpleHeaderConverter,
    StringConverter,
)
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import from_json, schema_to_json, to_json
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError

ROW = s.struct(
    {
        "id": Schema(s.INT64),
        "name": Schema(s.STRING, optional=True),
        "price": s.decimal(2, optional=True),
        "day": s.date_schema(optional=True),
        "at": s.timestamp_schema(optional=True),
        "clock": s.time_schema(optional=True),
        "tags": Schema(s.ARRAY, optional=True, items=Schema(s.STRING)),
        "more": Schema(s.MAP, optional=True, keys=Schema(s.INT32), items=Schema(s.FLOAT64)),
        "raw": Schema(s.BYTES, optional=True),
    },
    "shop.Row",
)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(
    lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000, tzinfo=UTC)
)
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(),
        "price": st.none() | st.decimals(-(10**9), 10**9, places=2),
        "day": st.none() | st.dates(date(1800, 1, 1), date(2500, 1, 1)),
        "at": st.none() | MOMENTS,
        "clock": st.none()
        | st.times().map(lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000)),
        "tags": st.none() | st.lists(st.text()),
        "more": st.none()
        | st.dictionaries(st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False)),
        "raw": st.none() | st.binary(),
    }
)


@settings(deadline=None)
@given(ROWS)
def test_json_with_a_schema_keeps_every_value(row: dict[str, Any]) -> None:
    converter = JsonConverter({}, is_key=False)
    data = converter.to_bytes("t", ROW, row)
    assert data is not None
    schema, value = converter.to_value("t", data)
    assert schema == ROW
    assert value == row


COMMON = s.struct(
    {
        "id": Schema(s.INT32),
        "100%": Schema(s.STRING, optional=True),
        "is": Schema(s.BOOLEAN, optional=True),
        "price": s.decimal(3, optional=True),
        "share": Schema(s.FLOAT64, optional=True),
        "raw": Schema(s.BYTES, optional=True),
        "kept": Schema(s.STRING, optional=True, default="as it was"),
        "inner": s.struct({"n": Schema(s.INT64)}, "Inner", optional=True),
    }
)
COMMON_ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**31), 2**31 - 1),
        "100%": st.none() | st.text(),
        "is": st.none() | st.booleans(),
        "price": st.none() | st.decimals(-(10**40), 10**40, places=3),
        "share": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
        "raw": st.none() | st.binary(),
        "inner": st.none() | st.fixed_dictionaries({"n": st.integers(-(2**63), 2**63 - 1)}),
    },
    optional={"kept": st.text()},
)


@settings(deadline=None)
@given(COMMON_ROWS, st.booleans())
def test_what_is_made_for_a_schema_writes_and_reads_what_the_general_way_does(
    row: dict[str, Any], has_default: bool
) -> None:
    schema = COMMON
    if not has_default:
        schema = COMMON.with_fields({k: v for k, v in COMMON.field_map().items() if k != "kept"})
    converter = JsonConverter({}, is_key=False)
    data = converter.to_bytes("t", schema, row)
    wanted = {"schema": schema_to_json(schema), "payload": to_json(schema, row)}
    assert data == json.dumps(wanted, separators=(",", ":"), ensure_ascii=False).encode()
    value = from_json(schema, json.loads(data)["payload"])
    for _ in range(2):  # the second time, the schema is known
        assert converter.to_value("t", data) == (schema, value)
    assert value["price"] == row["price"]


def test_bytes_after_a_known_schema_are_still_checked() -> None:
    converter = JsonConverter({}, is_key=False)
    start = b'{"schema":{"type":"int8","optional":false},"payload":'
    for _ in range(2):
        assert converter.to_value("t", start + b"5}") == (Schema(s.INT8), 5)
    for end in (b"5]", b"5", b'5,"more":1}', b"300}", b"5}}", b'"\xff"}'):
        with pytest.raises(DataError):
            converter.to_value("t", start + end)
    assert converter.to_value("t", start + b"6} ") == (Schema(s.INT8), 6)


def test_json_is_what_kafkas_converter_writes() -> None:
    row = {
        "id": 1,
        "price": Decimal("12.34"),
        "day": date(1970, 1, 3),
        "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "clock": time(0, 0, 2),
    }
    schema = s.struct({name: ROW.field_map()[name] for name in row}, "shop.Row")
    data = JsonConverter({}, is_key=False).to_bytes("t", schema, row)
    found = json.loads(data or b"")
    assert found["payload"] == {"id": 1, "price": "BNI=", "day": 2, "at": 1000, "clock": 2000}
    assert found["schema"]["name"] == "shop.Row"
    assert found["schema"]["fields"][:2] == [
        {"type": "int64", "optional": False, "field": "id"},
        {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2"},
            "field": "price",
        },
    ]
    plain = JsonConverter({"schemas.enable": "false"}, is_key=False)
    assert plain.to_bytes("t", None, {"a": [1, None]}) == b'{"a":[1,null]}'
    assert plain.to_value("t", b'{"a":1}') == (None, {"a": 1})
    assert plain.to_bytes("t", None, None) is None


@pytest.mark.parametrize("data", [b"{", b'{"a":1}', b'{"schema":{"type":"int8"},"payload":300}', b"\xff"])
def test_bad_json_is_a_data_error(data: bytes) -> None:
    with pytest.raises(DataError):
        JsonConverter({}, is_key=False).to_value("t", data)


def test_a_value_that_does_not_fit_its_schema_is_refused() -> None:
    converter = JsonConverter({}, is_key=False)
    with pytest.raises(DataError, match="null used for required field"):
        converter.to_bytes("t", s.struct({"id": Schema(s.INT32)}), {"id": None})
    with pytest.raises(DataError):
        converter.to_bytes("t", Schema(s.INT8), 200)


def test_the_plain_converters() -> None:
    text, raw = StringConverter({}, is_key=True), ByteArrayConverter({}, is_key=True)
    assert text.to_bytes("t", None, 5) == b"5"
    assert text.to_bytes("t", None, {"a": True}) == b'{"a":true}'
    assert text.to_value("t", "ž".encode())[1] == "ž"
    with pytest.raises(DataError):
        text.to_value("t", b"\xff")
    assert raw.to_value("t", b"\xff")[1] == b"\xff"
    with pytest.raises(DataError, match="ByteArrayConverter"):
        raw.to_bytes("t", Schema(s.STRING), "x")
    number = LongConverter({}, is_key=True)
    assert number.to_bytes("t", None, -2) == b"\xff" * 7 + b"\xfe"
    assert number.to_value("t", b"\x00" * 7 + b"\x05")[1] == 5
    with pytest.raises(DataError):
        number.to_value("t", b"\x00")
    assert BooleanConverter({}, is_key=True).to_value("t", b"\x01")[1] is True
    header = SimpleHeaderConverter({}, is_key=False)
    assert [header.to_value("t", each)[1] for each in (b"7", b"x y", b"true", b'{"a":1}', None)] == [
        7,
        "x y",
        True,
        {"a": 1},
        None,
    ]


def test_nulls_of_fields_with_a_default_stay_if_that_is_wanted() -> None:
    schema = s.struct({"a": Schema(s.STRING, optional=True, default="x"), "b": Schema(s.INT32, default=5)})
    data = {True: {"a": "x", "b": 5}, False: {"a": None, "b": None}}
    for replaces, expected in data.items():
        converter = JsonConverter({"replace.null.with.default": str(replaces).lower()}, is_key=False)
        written = converter.to_bytes("t", schema, {"a": None, "b": None})
        assert written is not None
        assert json.loads(written)["payload"] == expected
        for _ in range(2):
            assert converter.to_value("t", written) == (schema, expected)
