"""Kafka Streams' processor API, by `transformWithState`: the examples against plain Python."""

from __future__ import annotations

import random
import runpy
import sys

import pytest
from tests.spark.references import newest_per_limit, silences, sliding_averages
from tests.spark.streams import EXAMPLES, START_MS, Example, moment, seconds

from ottla.common.clock import SystemClock
from ottla.spark.pipelines.loading import load_project
from ottla.spark.pipelines.testing.cases import find_cases
from ottla.spark.pipelines.testing.runs import run_case

DEVICES = EXAMPLES / "silent_devices"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture
def example(spark, topics, tmp_path):
    pytest.importorskip("google.protobuf", reason="transformWithState needs protobuf")
    return lambda name: Example(spark, topics, tmp_path, name)


def readings(seed, first, last, count, keys=("x", "y")):
    """Keys, times and values, in the order of the times; no two of a key at the same time."""
    chosen = random.Random(seed)
    places = chosen.sample([(at, key) for at in range(first, last) for key in keys], count)
    return [(key, float(at), chosen.randrange(100) / 4) for at, key in sorted(places)]


def test_sliding_windows_end_with_each_reading(example):
    sliding = example("sliding_windows")
    sliding.create("probes")
    rows = readings(1, 0, 60, 40) + readings(2, 60, 120, 40)
    mixed = rows[:40]
    random.Random(3).shuffle(mixed)
    for batch in (mixed, rows[40:]):
        values = [{"sensor": sensor, "degrees": value, "at": moment(at)} for sensor, at, value in batch]
        sliding.send("probes", values)
        sliding.run()
    found = {
        (row["sensor"], seconds(row["end"])): (row["readings"], row["average"])
        for row in sliding.rows("sliding-averages")
    }
    expected = sliding_averages(rows, 10, rows[-1][1] - 5)
    assert len(sliding.rows("sliding-averages")) == len(expected)
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(expected[key]) for key in expected)


def test_of_many_changes_the_newest_continues_when_the_time_is_over(example):
    suppress = example("suppress_by_time")
    suppress.create("prices")
    rows = readings(4, 0, 300, 30) + readings(5, 300, 600, 30)
    for batch in (rows[:30], rows[30:]):
        values = [{"stock": stock, "price": value, "at": moment(at)} for stock, at, value in batch]
        suppress.send("prices", values)
        suppress.run()
    for stock in ("x", "y"):
        changes = [(at, value) for key, at, value in rows if key == stock]
        expected = newest_per_limit(changes, 60, rows[-1][1])
        found = [row["price"] for row in suppress.rows("calm-prices") if row["stock"] == stock]
        assert found == expected


def tables(seed, keys, count):
    """Changes of a table: keys and numbers, null now and then."""
    chosen = random.Random(seed)
    return [(chosen.choice(keys), chosen.choice([None, *range(9)])) for _ in range(count)]


def newest(changes):
    return {key: value for key, value in dict(changes).items() if value is not None}


def test_a_table_follows_two_tables(example):
    join = example("table_join")
    join.create("stock", "shelves")
    stock, shelves = tables(6, "abcdef", 40), tables(7, "bcdefg", 40)
    for part in (slice(0, 20), slice(20, 40)):
        join.send("stock", stock[part])
        join.send("shelves", shelves[part])
        join.run()
        left, right = newest(stock[: part.stop]), newest(shelves[: part.stop])
        assert join.table("items") == {
            key: {"stock": left[key], "shelf": right[key]} for key in left.keys() & right.keys()
        }


def test_a_table_follows_another_by_foreign_key(example):
    join = example("foreign_key_join")
    join.create("purchases", "buyers")
    chosen = random.Random(8)
    orders = [
        (f"o{chosen.randrange(12)}", chosen.choice([None, *({"customer": each} for each in "abcd")]))
        for _ in range(60)
    ]
    buyers = [(key, value and {"name": f"{key}{value}"}) for key, value in tables(9, "abcd", 20)]
    for orders_sent, buyers_sent in ((30, 10), (60, 20)):
        join.send("purchases", orders[orders_sent - 30 : orders_sent])
        join.send("buyers", buyers[buyers_sent - 10 : buyers_sent])
        join.run()
        known = newest(buyers[:buyers_sent])
        assert join.table("orders-with-buyers") == {
            key: {"order": order, "customer": known[order["customer"]]}
            for key, order in newest(orders[:orders_sent]).items()
            if order["customer"] in known
        }


@pytest.fixture
def rocksdb(spark):
    """What the spec file of silent_devices sets: a session that runs already must be told."""
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.set(PROVIDER, before)


def test_timers_tell_of_silent_devices(example, rocksdb):
    devices = example("")
    job = devices.pipeline.job(DEVICES)
    registry = load_project(job.project, devices.spark)
    [case] = find_cases(DEVICES)
    assert run_case(case, job, devices.spark, registry, SystemClock()) == []
    # Days later, in two batches.
    day = 86_400
    rows = readings(10, day, day + 3_000, 20) + readings(11, day + 3_000, day + 6_000, 20)
    for batch in (rows[:20], rows[20:]):
        devices.send("signals", [{"device": key, "at": moment(at)} for key, at, _ in batch])
        devices.run(DEVICES)
    told = [
        (row["device"], row["silent_since_ms"] / 1000 - START_MS / 1000) for row in devices.rows("alarms")
    ]
    for device in ("x", "y"):
        times = [at for key, at, _ in rows if key == device]
        assert [at for key, at in told if key == device] == silences(times, 300, rows[-1][1] - 10)


def test_the_examples_own_test_of_its_processor_passes_without_java(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    defined = runpy.run_path(str(DEVICES / "tests" / "test_silence.py"))
    tests = [function for name, function in defined.items() if name.startswith("test_")]
    assert len(tests) == 4
    for each in tests:
        each()
