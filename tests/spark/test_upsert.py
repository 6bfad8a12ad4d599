"""`ottla.spark.upsert` (the newest row of each key, exactly once), and the topic as a table."""

from __future__ import annotations

import json
import logging

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf
from tests.spark.pipeline_runs import Pipeline

from ottla.spark import changelog, table, upsert
from ottla.spark.errors import WrongOption
from ottla.spark.sink.decision_log import TOPIC as DECISIONS

WORDS = "word STRING, n BIGINT"


@pytest.fixture
def broker(spark_broker):
    return {"kafka.bootstrap.servers": spark_broker.address}


def counts(stream, topic):
    return (
        stream(topic)
        .selectExpr("CAST(value AS STRING) AS word")
        .groupBy("word")
        .agg({"*": "count"})
        .toDF("word", "n")
    )


def newest(topics, topic):
    """Return the last value of each key: what compaction leaves, and tombstones."""
    return {each.key.decode(): each.value for each in topics.records(topic)}


def test_counts_are_a_table_that_a_replayed_batch_does_not_change(
    spark, topics, stream, broker, tmp_path, checkpoint
):
    topic = topics.create("words")
    topics.fill(topic, ["a", "b", "a"], keys=False)

    def run():
        query = upsert(
            counts(stream, topic), topic=f"{topic}-counts", key="word", checkpoint=checkpoint,
            available_now=True, partitions=2, **broker,
        )  # fmt: skip
        assert query.awaitTermination(200)

    run()
    configs = {each.name: each.value for each in topics.admin.topic_configs(f"{topic}-counts")}
    assert configs["cleanup.policy"] == "compact"
    topics.fill(topic, ["a", "c"], keys=False)
    run()
    rows = table(f"{topic}-counts", key="word", schema=WORDS, spark=spark, **broker)
    assert rows.columns == ["word", "n"]
    assert {tuple(row) for row in rows.collect()} == {("a", 3), ("b", 1), ("c", 1)}
    before = len(topics.records(f"{topic}-counts"))
    assert before == 4  # a and b, then a and c: what has changed, once a batch
    # A crash before Spark's own commit log: the batch runs again.
    last = max(int(each.name) for each in (tmp_path / "checkpoint/commits").iterdir() if each.name.isdigit())
    (tmp_path / "checkpoint/commits" / str(last)).unlink()
    (tmp_path / "checkpoint/commits" / f".{last}.crc").unlink(missing_ok=True)
    run()
    assert len(topics.records(f"{topic}-counts")) == before
    assert topics.open_transactions() == []
    assert DECISIONS in topics.admin.list_topics()


def test_of_a_batch_the_newest_row_of_a_key_is_written_and_deletions_are_tombstones(
    spark, topics, stream, broker, checkpoint
):
    topic = topics.create("changes", partitions=1)
    sent = [
        {"id": 1, "name": "Ann", "gone": False, "v": 1},
        {"id": 2, "name": "Bob", "gone": False, "v": 5},
        {"id": 1, "name": "Anna", "gone": False, "v": 2},
        {"id": 2, "name": "old Bob", "gone": True, "v": 4},  # came late: its number is lower
        {"id": 3, "name": "Cy", "gone": False, "v": None},
        {"id": 3, "name": None, "gone": True, "v": 1},
    ]
    topics.fill(topic, map(json.dumps, sent), keys=False)
    rows = stream(topic).selectExpr(
        "from_json(CAST(value AS STRING), 'id INT, name STRING, gone BOOLEAN, v INT') AS row"
    ).select("row.*")  # fmt: skip
    query = upsert(
        rows, topic=f"{topic}-table", key="id", deleted="gone", sequence_by="v", checkpoint=checkpoint,
        available_now=True, **broker,
    )  # fmt: skip
    assert query.awaitTermination(200)
    found = {key: value and json.loads(value) for key, value in newest(topics, f"{topic}-table").items()}
    assert found == {"1": {"id": 1, "name": "Anna", "v": 2}, "2": {"id": 2, "name": "Bob", "v": 5}, "3": None}
    assert len(topics.records(f"{topic}-table")) == 3
    schema = "id INT, name STRING, v INT"
    read = table(f"{topic}-table", key="id", schema=schema, spark=spark, **broker)
    assert sorted(map(tuple, read.collect())) == [(1, "Anna", 2), (2, "Bob", 5)]
    changes = changelog(f"{topic}-table", key="id", schema=schema, spark=spark, **broker)
    assert changes.columns == ["id", "name", "v", "deleted", "offset"]
    shown = (
        changes.writeStream.format("memory").queryName("changes_of_test").trigger(availableNow=True).start()
    )
    assert shown.awaitTermination(200)
    seen = spark.sql("SELECT id, name, v, deleted FROM changes_of_test").collect()
    assert sorted(map(tuple, seen)) == [(1, "Anna", 2, False), (2, "Bob", 5, False), (3, None, None, True)]


def test_two_rows_of_a_key_fail_unless_it_is_said_which_is_newer(topics, stream, broker, checkpoint):
    topic = topics.create("twice")
    topics.fill(topic, ["a", "a"], keys=False)
    rows = stream(topic).selectExpr("CAST(value AS STRING) AS word", "offset")
    query = upsert(
        rows, topic=f"{topic}-table", key="word", checkpoint=checkpoint, available_now=True, **broker
    )
    with pytest.raises(StreamingQueryException, match="several rows of one batch have the key a"):
        assert query.awaitTermination(200)
    assert topics.records(f"{topic}-table") == []
    assert topics.open_transactions() == []


def test_a_table_of_spark_is_written_at_once_with_keys_of_several_columns(spark, topics, broker, caplog):
    topic = topics.create("not-compacted")
    rows = spark.createDataFrame([("x", 1, "p"), ("x", 2, "q")], "name STRING, part INT, text STRING")
    with caplog.at_level(logging.WARNING):
        assert upsert(rows, topic=topic, key=["name", "part"], **broker) is None
    assert "cleanup.policy=delete" in caplog.text
    assert newest(topics, topic).keys() == {'{"name":"x","part":1}', '{"name":"x","part":2}'}
    read = table(topic, key="name, part", schema=rows.schema, spark=spark, **broker)
    assert sorted(map(tuple, read.collect())) == [("x", 1, "p"), ("x", 2, "q")]
    upsert(rows, topic=topic, key=["name", "part"], value="text", deleted=sf.col("part") == 2, **broker)
    raw = table(topic, spark=spark, **broker).collect()
    assert [(bytes(row.key), bytes(row.value)) for row in raw] == [(b'{"name":"x","part":1}', b"p")]
    with pytest.raises(WrongOption, match="key: there is no column nom; there are name, part, text"):
        upsert(rows, topic=topic, key="nom", **broker)


FLOWS = """
    from pyspark.sql import SparkSession
    from ottla.spark import pipelines as dp

    spark = SparkSession.active()

    @dp.table(format="ottla", options={"topic": "upsert-totals", "key": "item", "mode": "upsert"})
    def totals():
        sales = dp.read_topic("upsert-sales", schema="item STRING, pieces INT")
        return sales.groupBy("item").agg({"pieces": "sum"}).toDF("item", "pieces")

    @dp.materialized_view
    def report():
        return spark.read.table("totals")
"""
SQL = """
    CREATE STREAMING TABLE few
    USING ottla TBLPROPERTIES ('topic' = 'upsert-few', 'key' = 'item', 'mode' = 'upsert', 'deleted' = 'many')
    AS SELECT item, pieces, pieces > 5 AS many FROM STREAM totals;
"""


def test_a_pipeline_upserts_and_reads_what_it_has_upserted_as_a_table(spark, topics, tmp_path):
    pipeline = Pipeline(spark, tmp_path, topics.address, {"flows.py": FLOWS, "few.sql": SQL})
    topics.admin.create_topic("upsert-sales", partitions=2)
    for sales in (["tea", 2], ["cup", 1]), (["tea", 4], ["cup", 2]):
        topics.fill("upsert-sales", [json.dumps({"item": i, "pieces": n}) for i, n in sales], keys=False)
        pipeline.run()
        pipeline.run()  # what the first run has written to totals
    assert {row["item"]: row["pieces"] for row in pipeline.rows("views", "report")} == {"tea": 6, "cup": 3}
    few = {key: value and json.loads(value) for key, value in newest(topics, "upsert-few").items()}
    assert few == {"tea": None, "cup": {"item": "cup", "pieces": 3}}
