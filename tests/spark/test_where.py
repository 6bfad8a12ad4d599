"""The option `where` selects as Spark's own filter does, in a batch and in a stream, and fetches less."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, GreaterThanOrEqual, InputPartition
from tests.spark.topics import Topics

from ottla.spark.data_source import OttlaSource
from ottla.spark.source.batch_reader import RangesToRead

PARTITIONS, RECORDS, SINCE_MS = 3, 40, 1_700_000_000_000
Rows = list[tuple[str, int, int]]


def fill(topics: Topics, seed: int) -> str:
    """Make a topic whose timestamps are in no order, in batches of a few records."""
    chance = random.Random(seed)
    topic = topics.create(partitions=PARTITIONS)
    for number in range(RECORDS * PARTITIONS):
        time_ms = SINCE_MS + number * 10 + chance.randrange(-400, 400)
        topics.producer.send(topic, b"%d" % number, partition=number % PARTITIONS, timestamp_ms=time_ms)
        if chance.random() < 0.3:
            topics.producer.flush()
    topics.producer.flush()
    return topic


def a_filter(chance: random.Random, topic: str) -> str:
    """Return conditions as both Spark and the option read them."""
    time = f"2023-11-14T22:13:{chance.randrange(19, 23)}.{chance.randrange(1000):03d}Z"
    offset, operator = chance.randrange(-2, RECORDS + 5), chance.choice(["<", "<=", ">", ">="])
    choices = [
        f"timestamp {operator} TIMESTAMP '{time}'",
        f"timestamp >= TIMESTAMP '{time}'",
        f"offset {operator} {offset}",
        f"offset BETWEEN {offset - 7} AND {offset + 7}",
        f"offset {chance.choice(['', 'NOT '])}IN ({offset}, 3, 17)",
        f"partition {chance.choice(['=', '!=', '<'])} {chance.randrange(PARTITIONS)}",
        f"topic = '{topic}'",
    ]
    return " AND ".join(chance.sample(choices, chance.randrange(1, 4)))


def rows_of(table: Any) -> Rows:
    return sorted(tuple(row) for row in table.select("topic", "partition", "offset").collect())


def test_random_conditions_select_what_sparks_filter_selects(
    source: Callable[..., Any], topics: Topics
) -> None:
    chance = random.Random(20)
    topic, other = fill(topics, 1), fill(topics, 2)
    subscribed = f"{topic},{other}"
    filters = [a_filter(chance, topic) for _ in range(16)]
    flags = [sf.expr(text).alias(f"filter{number}") for number, text in enumerate(filters)]
    everything = source(subscribed).select("topic", "partition", "offset", *flags).collect()
    assert len(everything) == 2 * RECORDS * PARTITIONS
    for number, text in enumerate(filters):
        expected = sorted((row[0], row[1], row[2]) for row in everything if row[f"filter{number}"])
        assert rows_of(source(subscribed, where=text)) == expected, text
        if number < 4:  # and Spark's own filter, on a DataFrame that is then read as a whole
            table = source(subscribed)
            assert rows_of(table.where(text)) == expected, text
            assert table.count() == len(everything)


def test_a_batch_does_not_fetch_what_cannot_match(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    for offset, time_ms in enumerate((50, 10, 99, 20, 70, 30)):
        topics.producer.send(topic, b"", partition=0, timestamp_ms=SINCE_MS + time_ms)
        topics.producer.send(topic, b"", partition=1, timestamp_ms=SINCE_MS + offset)
        topics.producer.flush()

    def planned(where: str) -> list[tuple[int, int, int]]:
        options = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, "where": where}
        tasks = OttlaSource(options).reader(None).partitions()
        ranges = [each for task in tasks if isinstance(task, RangesToRead) for each in task.ranges]
        return sorted((each.partition, each.start, each.end) for each in ranges if each.count)

    assert planned("partition = 1") == [(1, 0, 6)]
    assert planned("offset >= 2 AND offset < 4") == [(0, 2, 4), (1, 2, 4)]
    assert planned(f"timestamp >= {SINCE_MS + 60}") == [(0, 2, 6)]  # 20 and 30 come later
    assert planned(f"timestamp < {SINCE_MS + 20} AND offset IN (1, 5)") == [(0, 1, 6), (1, 1, 6)]
    assert planned("partition = 7") == []


def test_a_stream_passes_only_what_matches_and_advances_over_the_rest(
    spark: Any, stream: Callable[..., Any], topics: Topics, checkpoint: str
) -> None:
    topic = fill(topics, 3)

    def run(where: str) -> Rows:
        rows: Rows = []
        writer = stream(topic, where=where).writeStream.foreachBatch(
            lambda batch, _: rows.extend(rows_of(batch))
        )
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination(60)
        return sorted(rows)

    assert run("partition = 1 AND offset >= 5") == [(topic, 1, offset) for offset in range(5, RECORDS)]
    assert run("partition != 1") == []  # the query has passed them
    topics.producer.send(topic, b"new", partition=2, timestamp_ms=SINCE_MS)
    topics.producer.send(topic, b"new", partition=1, timestamp_ms=SINCE_MS + 10**6)
    topics.producer.flush()
    assert run(f"timestamp <= {SINCE_MS}") == [(topic, 2, RECORDS)]


class PrunedReader(DataSourceReader):
    """Reads 100 numbers, or what a pushed filter leaves."""

    first = 0

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        for each in filters:
            if isinstance(each, GreaterThanOrEqual):
                self.first = each.value
        return filters

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.first)]

    def read(self, partition: InputPartition) -> Any:
        return ((number,) for number in range(partition.value, 100))


class PrunedSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pruned"

    def schema(self) -> str:
        return "number INT"

    def reader(self, schema: Any) -> DataSourceReader:
        return PrunedReader()


def test_spark_still_loses_rows_by_pushed_filters(spark: Any) -> None:
    """Fails when Spark is fixed: then the source can have `pushFilters` (decision 265)."""
    conf = "spark.sql.python.filterPushdown.enabled"
    spark.dataSource.register(PrunedSource)
    spark.conf.set(conf, "true")
    try:
        table = spark.read.format("pruned").load()
        assert table.where("number >= 90").count() == 10
        assert table.count() == 10  # of 100
    finally:
        spark.conf.unset(conf)
