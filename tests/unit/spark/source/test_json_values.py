"""JSON into columns: one bad record spoils no other; the forms of dates, times and numbers that Spark takes.

tests/spark/test_json_like_spark.py compares the same parser with Spark's `from_json`.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from ottla.spark.source.json_times import find_zone
from ottla.spark.source.json_values import parse_json

TIMES = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(5, 2)),
        ("day", pa.date32()),
    ]
)
GOOD = b'{"id": 1, "at": "2020-01-02T03:04:05Z", "price": 1.5, "day": "2020-01-02"}'
READ = {
    "id": 1,
    "at": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
    "price": Decimal("1.50"),
    "day": date(2020, 1, 2),
}
NOTHING = dict.fromkeys(READ)


def parsed(kind: pa.DataType, text: str, zone: str = "UTC") -> Any:
    rows, errors = parse_json([b'{"a": %b}' % text.encode()], pa.schema([("a", kind)]), find_zone(zone))
    return (
        errors[0]
        if errors
        else rows.column("a").cast(pa.int64())[0].as_py()
        if zone != "UTC"
        else rows["a"][0].as_py()
    )


@pytest.mark.parametrize(
    "odd", [None, b"", b"not json", b'{"id":\n1}', b'{"id": "x"}', b"\xff", b'{"at": 1} 2']
)
def test_one_odd_record_spoils_no_other(odd: bytes | None) -> None:
    rows, errors = parse_json([GOOD, odd, GOOD], TIMES, UTC)
    found = rows.to_pylist()
    assert (found[0], found[2]) == (READ, READ)
    assert set(errors) <= {1}
    assert bool(errors) == (odd in (b"not json", b'{"id": "x"}', b"\xff", b'{"at": 1} 2'))
    assert found[1] == (NOTHING | {"id": 1} if odd == b'{"id":\n1}' else NOTHING)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ('"1970-01-01 01:00:00"', 0),
        ('"1970-01-01T00:00:00Z"', 0),
        ('"1970-01-01T02:00:00+02:00"', 0),
        ('"1970-1-1 2:0:0+2"', 0),
        ('"1970"', -3600),
        ('"1970-01-01 00:00 America/New_York"', 5 * 3600),
        ("17", 17),
        ('"2020-03-29T02:30:00"', 1585445400),
        ('"2020-10-25T02:30:00"', 1603585800),
    ],
)
def test_a_time_without_a_zone_is_in_the_zone_of_the_session(text: str, seconds: int) -> None:
    assert parsed(pa.timestamp("us", "UTC"), text, "Europe/Berlin") == seconds * 1_000_000


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.timestamp("us", "UTC"), '"2020-01-02T25:00:00"'),
        (pa.timestamp("us", "UTC"), '"yesterday"'),
        (pa.timestamp("us", "UTC"), '"2020-01-02T10:11:12 Nowhere"'),
        (pa.timestamp("us", "UTC"), "1.5"),
        (pa.timestamp("us"), '"2020-01-02T10:11:12Z"'),
        (pa.date32(), '"2020-02-30"'),
        (pa.date32(), "18000"),
        (pa.decimal128(5, 2), "1000"),
        (pa.decimal128(5, 2), "999.995"),
        (pa.decimal128(5, 2), "1e400"),
        (pa.decimal128(5, 2), '"NaN"'),
        (pa.int8(), "128"),
        (pa.int64(), "1.0"),
        (pa.int64(), "true"),
        (pa.bool_(), "1"),
        (pa.float64(), '"1.5"'),
        (pa.binary(), '"aGVsbG8"'),
        (pa.list_(pa.int32()), '["1"]'),
        (pa.map_(pa.string(), pa.int32()), "[]"),
        (pa.struct([("b", pa.int32())]), '"x"'),
    ],
)
def test_what_does_not_fit_its_type_is_refused_with_the_name_of_the_field(
    kind: pa.DataType, text: str
) -> None:
    assert str(parsed(kind, text)).startswith("a: ")


def test_numbers_and_objects_in_a_string_column_are_their_json() -> None:
    for text, expected in {
        "1": "1",
        "1e7": "1.0E7",
        "0.5": "0.5",
        "true": "true",
        '{"b": [1, null, "x"]}': '{"b":[1,null,"x"]}',
        '"\\ud800"': "?",
    }.items():
        assert parsed(pa.string(), text) == expected
    assert parsed(pa.decimal128(5, 2), '"1,0.005"') == Decimal("10.01")


def test_nested_values_keep_their_nulls() -> None:
    kind = pa.list_(pa.struct([("n", pa.map_(pa.string(), pa.decimal128(4, 1)))]))
    given = [{"n": {"x": 1.25, "y": None}}, None, {}]
    found = parsed(kind, json.dumps(given))
    assert found == [{"n": [("x", Decimal("1.3")), ("y", None)]}, None, {"n": None}]
