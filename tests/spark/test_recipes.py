"""Every code block of docs/spark-recipes.md, in its order, and what each recipe writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.streams import START_MS, moment, seconds

from ottla.client import Producer

PAGE = Path(__file__).parents[2] / "docs" / "spark-recipes.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMPACTED = ("customers", "cities", "stock", "shelves", "purchases")


def orders_of(*rows):
    names = ("id", "customer", "item", "pieces", "price", "at")
    return [(row[0], {**dict(zip(names, row, strict=True)), "at": moment(row[-1])}) for row in rows]


ORDERS = orders_of(
    ("o1", "ann", "tea", 2, 60.0, 0),
    ("o2", "bob", "cup", 1, 5.0, 60),
    ("o3", "ann", "cup", 3, 10.0, 120),
    ("o4", "cy", "tea", 1, 200.0, 1_200),
)
LATER = orders_of(("o5", "ann", "pot", 1, 1.0, 1_300))
CLICKS = [
    ("ann", "home", 0),
    ("ann", "home", 10),
    ("ann", "cart", 70),
    ("bob", "home", 5),
    ("zoe", "home", 1_800),
]
PAYMENTS = [("o1", 120.0, 300), ("o9", 1.0, 1_800)]
INPUT = {
    "orders": ORDERS,
    "raw-orders": [*ORDERS, ("o0", "no JSON")],
    "payments": [(key, {"id": key, "amount": amount, "paid_at": moment(at)}) for key, amount, at in PAYMENTS],
    "clicks": [(user, {"user": user, "page": page, "at": moment(at)}) for user, page, at in CLICKS],
    "customers": [
        ("ann", {"name": "Anna", "city": "Rom"}),
        ("ann", {"name": "Ann", "city": "Ulm"}),
        ("bob", {"name": "Bob", "city": "Rom"}),
        ("cy", {"name": "Cy", "city": "Rom"}),
        ("cy", None),
    ],
    "cities": [("Ulm", {"country": "DE"})],
    "stock": [("tea", {"pieces": 5}), ("cup", {"pieces": 2}), ("pot", {"pieces": 1}), ("pot", None)],
    "shelves": [("tea", {"shelf": "A"}), ("pot", {"shelf": "B"})],
    "purchases": [("p1", {"customer": "ann", "item": "tea"}), ("p2", {"customer": "cy", "item": "cup"})],
}  # fmt: skip


@pytest.fixture
def rocksdb(spark) -> Iterator[None]:
    """The setting of the page's session, in that of the tests."""
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(name)
    spark.conf.set(name, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    yield
    spark.conf.set(name, before)


def send(address, topic, records, timestamp=None):
    with Producer(address) as producer:
        for key, value in records:
            raw = value if value is None or isinstance(value, str) else json.dumps(value)
            producer.send(topic, raw and raw.encode(), key=key.encode(), timestamp_ms=timestamp)


@pytest.fixture
def queries(monkeypatch):
    """All queries that are started, so that none fails unseen."""
    started = []
    start = DataStreamWriter.start

    def noting(writer, *args, **options):
        started.append(start(writer, *args, **options))
        return started[-1]

    monkeypatch.setattr(DataStreamWriter, "start", noting)
    yield started
    for query in started:
        query.stop()


def wait_for(queries):
    for query in queries:
        assert query.awaitTermination(300), query.name


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_recipes_of_the_page(spark, topics, rocksdb, queries, tmp_path, monkeypatch):
    pytest.importorskip("google.protobuf", reason="transformWithState needs protobuf")
    monkeypatch.setattr("ottla.spark.session", lambda name, conf: spark, raising=False)
    for topic, records in INPUT.items():
        configs = {"cleanup.policy": "compact"} if topic in COMPACTED else {}
        # The times of the records are older than the default retention.
        topics.admin.create_topic(topic, partitions=2, configs={"retention.ms": "-1", **configs})
        send(topics.address, topic, records[:1], START_MS - 1)  # before the time of the replay
        send(topics.address, topic, records[1:], START_MS)
    names = {"__name__": "__main__"}
    for block in BLOCK.findall(PAGE.read_text()):
        if ".show()" in block or "SpentAndLast())" in block:
            wait_for(queries)
        if "SpentAndLast())" in block:
            send(topics.address, "orders", LATER, START_MS)
        text = block.replace("localhost:9092", topics.address).replace("/var/lib/recipes", str(tmp_path))
        exec(compile(text, str(PAGE), "exec"), names)
    wait_for(queries)
    check(Written(topics))
    assert topics.open_transactions() == []


class Written:
    """What the recipes have written."""

    def __init__(self, topics):
        self.topics = topics

    def rows(self, topic, *columns):
        """Return the rows of a topic, sorted; times in seconds."""
        records = [json.loads(each.value) for each in self.topics.records(topic)]
        found = [tuple(row.get(name) for name in columns) for row in records]
        return sorted((tuple(map(in_seconds, row)) for row in found), key=repr)

    def table(self, topic, *columns):
        """Return the newest row of each key, sorted; and how many keys are deleted."""
        newest = {each.key: each.value for each in self.topics.records(topic)}
        rows = [json.loads(value) for value in newest.values() if value is not None]
        found = sorted((tuple(in_seconds(row.get(name)) for name in columns) for row in rows), key=repr)
        return found, len(newest) - len(rows)


def in_seconds(value):
    is_time = isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value)
    return seconds(value) if is_time else value


def check(written):
    check_stateless(written)
    check_windows(written)
    check_joins(written)
    check_processors(written)


def check_stateless(written):
    assert written.rows("large-orders", "id", "customer", "amount") == [
        ("o1", "ann", 120.0),
        ("o4", "cy", 200.0),
    ]
    assert [each.key for each in written.topics.records("large-orders") if b"o1" in each.value] == [b"ann"]
    assert written.rows("many-pieces", "id") == [("o1",), ("o3",)]
    [dead] = written.topics.records("orders-dlq")
    assert (dead.key, dead.value) == (b"o0", b"no JSON")
    assert "ottla.error" in dict(dead.headers)
    totals = [("ann", 2, 5), ("bob", 1, 1), ("cy", 1, 1)]
    assert written.table("totals", "customer", "orders", "pieces") == (totals, 0)
    assert written.rows("busy-customers", "customer", "orders") == [("ann", 2)]
    by_item = sorted(each.key for each in written.topics.records("orders-by-item"))
    assert by_item == [b"cup", b"cup", b"pot", b"tea", b"tea"]
    everything = [("o1",), ("o2",), ("o3",), ("o4",), ("o5",)]
    assert written.rows("orders-copy", "id") == written.rows("orders-audit", "id") == everything
    assert written.rows("orders-again", "id") == everything[1:]


def check_windows(written):
    tumbling = [("ann", 0.0, 2), ("ann", 60.0, 1), ("bob", 0.0, 1)]
    assert written.table("tumbling", "user", "start", "count") == ([*tumbling, ("zoe", 1800.0, 1)], 0)
    hopping, _ = written.table("hopping", "user", "start", "count")
    assert {("ann", -60.0, 2), ("ann", 0.0, 3), ("ann", 60.0, 1), ("bob", -60.0, 1)} < set(hopping)
    assert len(hopping) == 7
    sessions = [("ann", 0.0, 40.0, 2), ("ann", 70.0, 100.0, 1), ("bob", 5.0, 35.0, 1)]
    assert written.rows("sessions", "user", "start", "end", "count") == sessions
    assert written.rows("final-counts", "user", "start", "count") == tumbling


def check_joins(written):
    paid = [("o1", "tea", 120.0), ("o2", "cup", None), ("o3", "cup", None)]
    assert written.rows("paid-orders", "id", "item", "amount") == paid
    named = [("o1", "Ann", "DE"), ("o2", "Bob", None), ("o3", "Ann", "DE"), ("o4", None, None)]
    assert written.rows("named-orders", "id", "name", "country") == named
    assert written.table("items", "item", "pieces", "shelf") == ([("tea", 5, "A")], 2)
    assert written.table("purchases-with-names", "id", "item", "name") == ([("p1", "tea", "Ann")], 1)


def check_processors(written):
    silences = [
        (user, (ms - START_MS) / 1000) for user, ms in written.rows("silences", "user", "silent_since_ms")
    ]
    assert silences == [("ann", 70.0), ("bob", 5.0)]
    visits = [("ann", "cart"), ("ann", "home"), ("bob", "home"), ("zoe", "home")]
    assert written.rows("first-visits", "user", "page") == visits
    spent = [("ann", 151.0, None, "pot"), ("bob", 5.0, None, "cup"), ("cy", 200.0, None, "tea")]
    assert written.table("spent", "customer", "amount", "before", "last") == (spent, 0)
