"""`deserialize=json` against Spark's `from_json`, on random records: valid, invalid, of all types, nested."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from ottla.spark.source.json_times import find_zone
from ottla.spark.source.json_values import parse_json

RECORDS = 400
BAD = "_bad"
SCHEMA = (
    "s STRING, i INT, l BIGINT, b BOOLEAN, d DOUBLE, f FLOAT, m DECIMAL(7,2), w DECIMAL(38,10), y DATE, "
    "t TIMESTAMP, n TIMESTAMP_NTZ, x BINARY, a ARRAY<TIMESTAMP>, p MAP<STRING,DECIMAL(5,1)>, "
    "o STRUCT<i:INT,s:STRING,t:DATE,l:ARRAY<STRUCT<d:DOUBLE>>>"
)
WORDS = ["", "x", "NaN", "-INF", "Infinity", "aGVsbG8=", "1.5", "ünïcode \\u2028", "true", "a b", "{}", " "]
TIMES = [
    "2020-01-02",
    "2020-1-2 3:4:5",
    "2020-01-02T03:04:05.123456789Z",
    "2020-06-02 10:11:12.5+0230",
    "2020-03-29T02:30:00",
    "2020-10-25T02:30:00 Europe/Berlin",
    "1900-01-01 00:00:00",
    "2020-02-30",
    "2020-13-01",
    "2020-01-02T24:00:00",
    "2020",
    "2020-07",
    "2020-01-02T10",
    "2020-01-02T10:11 PST",
]
BROKEN = [
    "",
    "  ",
    "null",
    "[]",
    "1",
    '"x"',
    "{",
    '{"s":}',
    '{"s":"\t"}',
    '{"s":01}',
    "{s:1}",
    '{"i":1,}',
    "\ufeff{}",
]


def scalar(rng: random.Random) -> Any:
    kind = rng.randrange(9)
    if kind < 2:
        return rng.choice(TIMES)
    if kind < 3:
        return rng.choice(WORDS)
    if kind < 5:
        return rng.choice(
            [0, 1, -1, 255, 99999, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, rng.randrange(10**6)]
        )
    if kind < 7:
        return rng.choice([0.0, 1.5, -0.125, 12345.678, 99999.995, 1e-9, 3.25e20, rng.random() * 1000])
    return rng.choice([None, True, False])


def value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(8) if depth < 3 else 7
    if kind == 0:
        return [value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 1:
        return {rng.choice("istdlxyzé"): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    return scalar(rng)


FITTING: dict[str, Callable[[random.Random], Any]] = {
    "s": lambda rng: rng.choice(WORDS),
    "i": lambda rng: rng.randrange(-(2**31), 2**31),
    "l": lambda rng: rng.randrange(-(2**63), 2**63),
    "b": lambda rng: rng.random() < 0.5,
    "d": lambda rng: rng.uniform(-1e6, 1e6),
    "m": lambda rng: rng.uniform(-99999, 99999),
    "w": lambda rng: rng.choice([rng.uniform(-1e20, 1e20), rng.randrange(10**20)]),
    "y": lambda rng: rng.choice(TIMES[:2]),
    "t": lambda rng: rng.choice([*TIMES[:7], rng.randrange(2 * 10**9)]),
    "a": lambda rng: [rng.choice(TIMES[:7]) for _ in range(2)],
    "p": lambda rng: {each: rng.uniform(0, 99) for each in "ab"},
    "o": lambda rng: {"i": 1, "s": value(rng), "t": "2020-01-02", "l": [{"d": 1}, None, {}]},
}


def record(rng: random.Random) -> str:
    """Return a record: half of them fit the schema, most of the others have one field that may not."""
    if rng.random() < 0.08:
        return rng.choice(BROKEN)
    fields = {name: FITTING[name](rng) for name in rng.sample(sorted(FITTING), rng.randrange(6))}
    if rng.random() < 0.5:
        fields[rng.choice("silbdfmwytnxapoz")] = value(rng)
    return json.dumps(fields, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))


def test_every_record_is_read_or_refused_as_by_from_json(spark: Any) -> None:
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.types import to_arrow_schema

    rng = random.Random(20)
    records = [record(rng) for _ in range(RECORDS)]
    table = spark.createDataFrame(list(enumerate(records)), "n INT, j STRING")
    for zone in ("UTC", "America/New_York"):
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD, "timeZone": zone}
        theirs = table.select("n", sf.from_json("j", f"{SCHEMA}, {BAD} STRING", options).alias("r"))
        theirs = theirs.orderBy("n").select("r.*")
        schema = to_arrow_schema(theirs.drop(BAD).schema, timezone="UTC")
        expected = theirs.toArrow().cast(to_arrow_schema(theirs.schema, timezone="UTC")).to_pylist()
        ours, errors = parse_json([each.encode() for each in records], schema, find_zone(zone))
        refused = {row for row, each in enumerate(expected) if each[BAD] is not None}
        assert {row: records[row] for row in errors.keys() ^ refused} == {}
        for row, (mine, other) in enumerate(zip(ours.to_pylist(), expected, strict=True)):
            del other[BAD]
            assert row in refused or repr(mine) == repr(other), records[row]
        assert RECORDS / 10 < len(refused) < RECORDS / 2
