"""Kafka Streams' stateless operators, aggregates, joins with tables, interactive queries: the examples."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict

import pytest
from tests.spark.streams import Example


@pytest.fixture
def example(spark, topics, tmp_path):
    return lambda name: Example(spark, topics, tmp_path, name)


def lines(seed):
    chosen = random.Random(seed)
    words = [
        "a",
        "Kafka",
        "stream",
        "of",
        "Records",
        "partition",
        "CONSUMER",
        "exactly",
        "once,",
        "and-so-on",
    ]
    return [" ".join(chosen.choices(words, k=chosen.randrange(6))) for _ in range(60)]


def words_of(text):
    return [word for line in text for word in re.split("[^a-z]+", line.lower()) if word]


def test_stateless_operators_split_merged_topics_in_one_query(example):
    stateless = example("stateless")
    books, letters = lines(1), lines(2)
    stateless.create("books", "letters")
    stateless.send("books", books)
    stateless.send("letters", letters)
    for _ in range(2):  # the second time there is nothing to do
        stateless.run()
    expected = words_of([*books, *letters])
    assert stateless.topics.values("long-words") == sorted(word for word in expected if len(word) > 6)
    assert stateless.topics.values("short-words") == sorted(word for word in expected if len(word) <= 6)
    assert stateless.topics.open_transactions() == []


def test_what_is_peeked_at_stands_in_the_progress(example, topics, stream, checkpoint):
    functions = example("stateless").functions()
    text = lines(3)
    topic = topics.create("peeked")
    topics.fill(topic, text, keys=False)
    rows = functions["peeked"](functions["words"](stream(topic)))
    query = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(200)
    [seen] = [each.observedMetrics["words"] for each in query.recentProgress if each.numInputRows]
    expected = words_of(text)
    assert (seen["all"], seen["longest"]) == (len(expected), max(map(len, expected)))


SALES = [
    {"item": chosen.choice("abcdefg"), "pieces": chosen.randrange(1, 9), "price": chosen.randrange(100) / 4}
    for chosen in [random.Random(4)]
    for _ in range(200)
]
RETURNS = [
    {"item": chosen.choice("abcxy"), "reason": chosen.choice(["broken", "late", "ugly"])}
    for chosen in [random.Random(5)]
    for _ in range(12)
]


def totals(sales):
    by_item = defaultdict(list)
    for sale in sales:
        by_item[sale["item"]].append(sale)
    return {
        item: {
            "item": item,
            "sales": len(group),
            "highest_price": max(sale["price"] for sale in group),
            "amounts": {
                "pieces": sum(sale["pieces"] for sale in group),
                "most": max(sale["pieces"] for sale in group),
            },
        }
        for item, group in by_item.items()
    }


def quality(sales, returns):
    found = {item: {"item": item, "reasons": []} for item in {row["item"] for row in [*sales, *returns]}}
    for sale in sales:
        row = found[sale["item"]]
        row["sold"] = row.get("sold", 0) + sale["pieces"]
    for item, row in found.items():
        row["reasons"] = sorted({each["reason"] for each in returns if each["item"] == item})
    return found


def test_aggregates_are_tables_that_the_topic_and_the_state_answer_for(example, spark):
    aggregates = example("aggregates")
    aggregates.create("sales", "returns")
    aggregates.create("item-totals", "item-quality", is_compacted=True)
    aggregates.send("sales", SALES[:120])
    aggregates.send("returns", RETURNS[:6])
    aggregates.run()
    assert aggregates.table("item-totals") == totals(SALES[:120])
    aggregates.send("sales", SALES[120:])
    aggregates.send("returns", RETURNS[6:])
    aggregates.run()
    assert aggregates.table("item-totals") == totals(SALES)
    assert aggregates.table("item-quality") == quality(SALES, RETURNS)
    ask = example("interactive_queries").functions()
    address = aggregates.topics.address
    for item, expected in totals(SALES).items():
        assert json.loads(ask["newest"](address, "item-totals", item.encode())) == expected
    assert ask["newest"](address, "item-totals", b"unknown") is None
    checkpoint = aggregates.pipeline.job(aggregates.file).storage.checkpoint("totals")
    state = ask["state_of"](spark, str(checkpoint)).selectExpr("key.item", "value.count").collect()
    assert {row.item: row["count"] for row in state} == {
        item: row["sales"] for item, row in totals(SALES).items()
    }


def test_a_stream_meets_its_tables_as_they_are_in_each_batch(example, spark, stream, source, checkpoint):
    visits = example("stream_table_join")
    functions = visits.functions()
    visits.create("visits", "visitors", "cities")
    visitors = {"1": {"name": "Ann", "city": "Ulm"}, "2": {"name": "Bob", "city": "Rom"}}
    cities = {"Ulm": {"country": "DE"}, "Rom": {"country": "IT"}}
    visits.send("visitors", visitors.items())
    visits.send("cities", cities.items())
    from ottla.spark.pipelines.records import as_records, latest_per_key, strict_json

    rows = functions["with_country"](
        functions["with_customer"](
            strict_json(stream("visits"), "customer STRING, page STRING"),
            latest_per_key(source("visitors"), "name STRING, city STRING"),
        ),
        latest_per_key(source("cities"), "country STRING"),
    )
    writer = as_records(rows, key="customer").writeStream.format("ottla")
    options = {"kafka.bootstrap.servers": visits.topics.address, "topic": "seen-visits"}
    query = writer.options(**options).option("checkpointLocation", checkpoint).start()
    expected = []
    try:
        for changes in (
            {},
            {"1": {"name": "Ann", "city": "Rom"}},
            {"2": None, "3": {"name": "Cy", "city": "?"}},
        ):
            visitors |= changes
            visits.send("visitors", changes.items())
            sent = [{"customer": customer, "page": f"/{len(changes)}"} for customer in "1234"]
            visits.send("visits", sent)
            query.processAllAvailable()
            for visit in sent:
                customer = visitors.get(visit["customer"]) or {}
                expected.append(visit | customer | cities.get(customer.get("city"), {}))
    finally:
        query.stop()
    found = visits.rows("seen-visits")
    assert sorted(found, key=str_of) == sorted(expected, key=str_of)


def str_of(row):
    return json.dumps(row, sort_keys=True)


def test_the_pipeline_of_the_table_join_runs(example):
    visits = example("stream_table_join")
    visits.send("visits", [{"customer": "9", "page": "/last"}])
    visits.send("visitors", [("9", {"name": "Zoe", "city": "Rom"})])
    visits.run()
    [found] = [row for row in visits.rows("known-visits") if row["customer"] == "9"]
    assert found == {"customer": "9", "page": "/last", "name": "Zoe", "city": "Rom", "country": "IT"}
