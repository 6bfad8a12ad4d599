"""Topics read as streams: limits, restarts, new partitions, and what can go wrong under a query."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.topics import Topics, numbers
from tests.waiting import wait_until

from ottla.client import TopicPartition
from ottla.spark.checkpoint_lock import CheckpointInUse, CheckpointLock
from ottla.testing.local_broker import OttlaBroker

Read = Callable[..., Any]


class Collected:
    """The batches of a query, as a foreachBatch saw them."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        self.fails_in: int | None = None

    def __call__(self, rows: Any, batch_id: int) -> None:
        found = sorted(row["value"].decode() for row in rows.select("value").collect())
        if batch_id == self.fails_in:
            raise RuntimeError("as asked for")
        self.batches[batch_id] = found

    @property
    def values(self) -> list[str]:
        return sorted(value for batch in self.batches.values() for value in batch)


def run(rows: Any, checkpoint: str, collected: Collected) -> Any:
    """Read everything that is there, and end."""
    writer = rows.writeStream.foreachBatch(collected).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    return query


def test_a_query_reads_in_batches_and_continues_after_a_restart(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 100))
    first = Collected()
    run(stream(topic, maxOffsetsPerTrigger="40"), checkpoint, first)
    assert len(first.batches) == 3
    assert all(len(batch) <= 42 for batch in first.batches.values())
    assert first.values == numbers(0, 100)

    topics.fill(topic, numbers(100, 110))
    topics.admin.create_partitions(topic, 5)
    topics.fill(topic, ["new"], partition=4)
    second = Collected()
    run(stream(topic), checkpoint, second)
    assert second.values == [*numbers(100, 110), "new"]


def test_a_query_from_the_latest_record_on_loses_nothing_when_its_first_batch_fails(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    topic = topics.create()
    topics.fill(topic, ["before"])
    collected = Collected()
    collected.fails_in = 0
    rows = stream(topic, startingOffsets="latest")
    query = rows.writeStream.foreachBatch(collected).option("checkpointLocation", checkpoint).start()
    wait_until(lambda: query.exception() is not None, "the first batch has failed")
    topics.fill(topic, numbers(0, 20))

    collected.fails_in = None
    run(stream(topic, startingOffsets="latest"), checkpoint, collected)
    assert collected.values == numbers(0, 20)


def test_a_first_batch_that_is_replayed_begins_where_it_began(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    topic = topics.create(partitions=1)
    topics.fill(topic, numbers(0, 10))
    collected = Collected()
    collected.fails_in = 0
    with pytest.raises(Exception, match="as asked for"):
        run(stream(topic), checkpoint, collected)
    topics.admin.delete_records({TopicPartition(topic, 0): 4})  # now `earliest` is somewhere else
    collected.fails_in = None
    with pytest.raises(Exception, match=f"{topic}-0 has offsets 4 to 10, but 0 was to be read next"):
        run(stream(topic), checkpoint, collected)
    run(stream(topic, failOnDataLoss="false"), checkpoint, collected)
    assert collected.values == numbers(4, 10)


def test_progress_is_committed_to_a_group(stream: Read, topics: Topics, checkpoint: str) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 10))
    group = f"group-of-{topic}"
    run(stream(topic, maxOffsetsPerTrigger="4", **{"kafka.group.id": group}), checkpoint, Collected())
    lag = topics.admin.group_lag(group)
    assert {at.topic for at in lag} == {topic}
    assert sum(each.lag.records for each in lag.values()) == 0


def test_a_topic_that_was_deleted_and_created_again_fails_the_query(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    topic = topics.create()
    topics.fill(topic, numbers(0, 10))
    run(stream(topic), checkpoint, Collected())
    topics.admin.delete_topic(topic)
    with pytest.raises(Exception, match="does not exist any more"):
        run(stream(topic), checkpoint, Collected())
    topics.admin.create_topic(topic, partitions=3)
    topics.fill(topic, numbers(50, 80))
    with pytest.raises(Exception, match=f"the topic {topic} was deleted and recreated"):
        run(stream(topic), checkpoint, Collected())
    collected = Collected()
    run(stream(topic, failOnDataLoss="false"), checkpoint, collected)
    assert collected.values == numbers(50, 80)


def test_the_checkpoint_of_another_query_is_refused(stream: Read, topics: Topics, checkpoint: str) -> None:
    theirs, ours = topics.create("theirs"), topics.create("ours")
    topics.fill(theirs, numbers(0, 10))
    topics.fill(ours, numbers(10, 20))
    run(stream(theirs), checkpoint, Collected())
    with pytest.raises(Exception, match=f"has a position in {theirs}-0, which this query does not read"):
        run(stream(ours), checkpoint, Collected())


def test_offsets_that_are_gone_fail_the_query_unless_it_may_skip_them(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    topic = topics.create(partitions=1)
    topics.fill(topic, numbers(0, 5))
    run(stream(topic), checkpoint, Collected())
    topics.fill(topic, numbers(5, 20))
    topics.admin.delete_records({TopicPartition(topic, 0): 12})
    with pytest.raises(Exception, match=f"{topic}-0 has offsets 12 to 20, but 5 was to be read next"):
        run(stream(topic), checkpoint, Collected())
    collected = Collected()
    run(stream(topic, failOnDataLoss="false"), checkpoint, collected)
    assert collected.values == numbers(12, 20)


def test_a_table_in_a_stream_is_read_up_to_its_end_in_every_batch(
    stream: Read, source: Read, topics: Topics, checkpoint: str
) -> None:
    orders, prices = topics.create("orders"), topics.create("prices")
    topics.fill(prices, ["tea"])
    topics.fill(orders, ["tea"])
    table = source(prices, columns="key").distinct()
    joined = stream(orders).join(table, "key")
    collected = Collected()
    writer = joined.writeStream.foreachBatch(collected).option("checkpointLocation", checkpoint)
    query = writer.start()
    try:
        query.processAllAvailable()
        topics.fill(prices, ["milk"])
        topics.fill(orders, ["milk"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert collected.values == ["milk", "tea"]


def test_a_broker_that_is_away_is_waited_for(spark: Any, checkpoint: str, tmp_path: Path) -> None:
    with OttlaBroker(folder=tmp_path / "broker") as broker, Topics(broker.bootstrap_servers) as topics:
        topic = topics.create()
        topics.fill(topic, numbers(0, 10))
        reader = spark.readStream.format("ottla").option("subscribe", topic)
        reader = reader.option("startingOffsets", "earliest")
        rows = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()
        collected = Collected()
        query = rows.writeStream.foreachBatch(collected).option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            broker.kill()
            broker.start()
            topics.fill(topic, numbers(10, 20))
            query.processAllAvailable()
        finally:
            query.stop()
        assert collected.values == numbers(0, 20)


def test_a_broker_that_is_not_there_at_the_start_is_named(spark: Any, checkpoint: str) -> None:
    reader = spark.readStream.format("ottla").option("subscribe", "x")
    rows = reader.option("kafka.bootstrap.servers", "127.0.0.1:1").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        assert query.awaitTermination(200)


HOLDER = """
import sys
from ottla.spark.checkpoint_lock import CheckpointLock

with CheckpointLock(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_two_processes_cannot_run_a_query_on_one_checkpoint(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    topic = topics.create()
    topics.fill(topic, ["one"])
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, checkpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(CheckpointInUse, match=f"process {holder.pid} runs a query"):
            run(stream(topic), checkpoint, Collected())
        holder.kill()
    collected = Collected()
    run(stream(topic), checkpoint, collected)
    assert collected.values == ["one"]
    CheckpointLock(checkpoint).acquire(wait_s=10)  # the query has ended, and with it its lock
