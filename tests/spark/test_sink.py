"""Writing to topics: columns, output modes, several sinks, and what is seen when something fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.spark.topics import Topics, numbers

Read = Callable[..., Any]


def write(rows: Any, address: str, checkpoint: str, *, mode: str = "append", **options: str) -> Any:
    """Write everything that is there, and end."""
    writer = rows.writeStream.format("ottla").outputMode(mode).option("kafka.bootstrap.servers", address)
    writer = writer.options(**options).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    return query


def save(rows: Any, address: str, **options: str) -> None:
    rows.write.format("ottla").option("kafka.bootstrap.servers", address).options(**options).mode(
        "append"
    ).save()


def test_a_stream_is_written_once_over_restarts(stream: Read, topics: Topics, checkpoint: str) -> None:
    into, out = topics.create(), topics.create()
    topics.fill(into, numbers(0, 100))
    for upto in (150, 200):
        write(stream(into, maxOffsetsPerTrigger="60"), topics.address, checkpoint, topic=out)
        topics.fill(into, numbers(upto - 50, upto))
    write(stream(into), topics.address, checkpoint, topic=out)
    assert topics.values(out) == numbers(0, 200)
    assert topics.open_transactions() == []


def test_rows_say_where_they_go_and_what_goes_with_them(spark: Any, topics: Topics) -> None:
    one, two = topics.create(), topics.create()
    rows = spark.createDataFrame(
        [(one, "k", b"v", 2, [("h", bytearray(b"x"))]), (two, None, None, None, None)],
        "topic string, key string, value binary, partition int, "
        "headers array<struct<key:string,value:binary>>",
    )
    save(rows, topics.address)
    (first,), (second,) = topics.records(one), topics.records(two)
    assert (first.key, first.value, first.partition, first.headers) == (b"k", b"v", 2, (("h", b"x"),))
    assert (second.key, second.value, second.headers) == (None, None, ())


def test_keys_go_where_every_client_puts_them(spark: Any, topics: Topics) -> None:
    topic = topics.create(partitions=5)
    topics.fill(topic, numbers(0, 50))
    theirs = {each.key: each.partition for each in topics.records(topic)}
    written = topics.create(partitions=5)
    rows = spark.createDataFrame([(each, each) for each in numbers(0, 50)], "key string, value string")
    save(rows, topics.address, topic=written)
    assert {each.key: each.partition for each in topics.records(written)} == theirs


def test_a_table_is_written_all_or_nothing(spark: Any, topics: Topics) -> None:
    from pyspark.sql import functions as f

    topic = topics.create()
    rows = spark.range(0, 1_000, numPartitions=2)
    bad = f.when(rows.id == 900, f.raise_error(f.lit("no"))).otherwise(rows.id.cast("string"))
    with pytest.raises(Exception, match="no"):
        save(rows.select(bad.alias("value")), topics.address, topic=topic)
    assert topics.records(topic) == []
    assert topics.open_transactions() == []
    save(rows.select(rows.id.cast("string").alias("value")), topics.address, topic=topic)
    assert len(topics.values(topic)) == 1_000


def test_complete_mode_writes_the_whole_result_each_time(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    into, out = topics.create(), topics.create()
    topics.fill(into, ["a", "a", "b"])
    counted = stream(into).groupBy("value").count()
    rows = counted.selectExpr("value AS key", "cast(count AS string) AS value")
    write(rows, topics.address, checkpoint, mode="complete", topic=out)
    assert sorted((each.key, each.value) for each in topics.records(out)) == [(b"a", b"2"), (b"b", b"1")]


def test_update_mode_and_several_sinks_go_through_foreach_batch(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    into, counts, copies = topics.create(), topics.create(), topics.create()
    topics.fill(into, ["a", "a", "b"])
    counted = stream(into).groupBy("value").count()
    seen: list[int] = []

    def both(rows: Any, batch_id: int) -> None:
        seen.append(batch_id)
        save(rows.selectExpr("value AS key", "cast(count AS string) AS value"), topics.address, topic=counts)
        save(rows.selectExpr("value"), topics.address, topic=copies, sinkName="copies")
        if len(seen) == 1:
            raise RuntimeError("after both were written")

    def run() -> Any:
        writer = counted.writeStream.outputMode("update").foreachBatch(both)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(200)

    with pytest.raises(Exception, match="after both were written"):
        run()
    run()
    assert seen == [0, 0]
    assert sorted((each.key, each.value) for each in topics.records(counts)) == [(b"a", b"2"), (b"b", b"1")]
    assert topics.values(copies) == ["a", "b"]


def test_two_writes_of_a_batch_need_two_names(stream: Read, topics: Topics, checkpoint: str) -> None:
    into, out = topics.create(), topics.create()
    topics.fill(into, ["a"])

    def twice(rows: Any, batch_id: int) -> None:
        save(rows.select("value"), topics.address, topic=out)
        save(rows.select("value"), topics.address, topic=out)

    writer = stream(into).writeStream.foreachBatch(twice).option("checkpointLocation", checkpoint)
    with pytest.raises(Exception, match="written twice under the same sink name"):
        writer.trigger(availableNow=True).start().awaitTermination(200)


def test_a_job_group_of_the_user_does_not_prevent_a_restart(
    spark: Any, stream: Read, topics: Topics, checkpoint: str
) -> None:
    into, out = topics.create(), topics.create()
    topics.fill(into, ["a"])
    seen: list[int] = []

    def grouped(rows: Any, batch_id: int) -> None:
        spark.sparkContext.setJobGroup("nightly", "of the user")
        save(rows.select("value"), topics.address, topic=out)
        seen.append(batch_id)
        if len(seen) == 1:
            raise RuntimeError("after it was written")

    def run() -> None:
        writer = stream(into).writeStream.foreachBatch(grouped).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination(200)

    with pytest.raises(Exception, match="after it was written"):
        run()
    run()
    topics.fill(into, ["b"])
    run()
    assert seen == [0, 0, 1]
    assert topics.values(out) == ["a", "b"]


def test_writes_from_threads_of_foreach_batch_are_exactly_once_or_refused(
    stream: Read, topics: Topics, checkpoint: str
) -> None:
    from pyspark import InheritableThread

    into, out = topics.create(), topics.create()
    topics.fill(into, ["a"])
    seen: list[int] = []
    kinds: list[type[Thread]] = [Thread, InheritableThread, InheritableThread]
    refusals: list[str] = []

    def threaded(rows: Any, batch_id: int) -> None:
        def write_there() -> None:
            try:
                save(rows.select("value"), topics.address, topic=out)
            except Exception as error:
                refusals.append(str(error))

        thread = kinds[len(seen)](target=write_there)
        seen.append(batch_id)
        thread.start()
        thread.join()
        if len(seen) < len(kinds):
            raise RuntimeError("once more")

    def run() -> None:
        writer = stream(into).writeStream.foreachBatch(threaded).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination(200)

    for _ in kinds[1:]:
        with pytest.raises(Exception, match="once more"):
            run()
    run()
    assert seen == [0, 0, 0]
    assert len(refusals) == 1
    assert "does not know its query and batch" in refusals[0]
    assert topics.values(out) == ["a"]


def test_tables_are_written_and_queries_started_in_any_thread(
    spark: Any, stream: Read, topics: Topics, checkpoint: str
) -> None:
    into, out = topics.create(), topics.create()
    failures: list[Exception] = []

    def work() -> None:
        try:
            save(spark.createDataFrame([("a",), ("b",)], "value string"), topics.address, topic=into)
            write(stream(into), topics.address, checkpoint, topic=out)
        except Exception as error:
            failures.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []
    assert topics.values(out) == ["a", "b"]


def test_an_older_checkpoint_is_refused(stream: Read, topics: Topics, checkpoint: str) -> None:
    into, out = topics.create(), topics.create()
    topics.fill(into, numbers(0, 10))
    write(stream(into), topics.address, checkpoint, topic=out)
    shutil.copytree(checkpoint, checkpoint + "-old")
    for first in (10, 20):
        topics.fill(into, numbers(first, first + 10))
        write(stream(into), topics.address, checkpoint, topic=out)
    with pytest.raises(Exception, match="the checkpoint is older than the output"):
        write(stream(into), topics.address, checkpoint + "-old", topic=out)
    assert topics.values(out) == numbers(0, 30)


def by_for_each_batch(rows: Any, address: str, checkpoint: str, topic: str) -> None:
    def write_twice(batch: Any, _: int) -> None:
        save(batch.select("key", "value"), address, topic=topic)
        save(batch.select("key", "value"), address, topic=topic, sinkName="again")

    query = rows.writeStream.foreachBatch(write_twice)
    query = query.trigger(availableNow=True).start(checkpointLocation=checkpoint)
    assert query.awaitTermination(200)


@pytest.mark.parametrize("through", ["the sink", "foreachBatch"])
def test_a_checkpoint_that_is_one_batch_older_is_refused_if_its_batch_would_be_another(
    stream: Read, topics: Topics, checkpoint: str, through: str
) -> None:
    into, out = topics.create(), topics.create()

    def run(folder: str) -> None:
        if through == "the sink":
            write(stream(into), topics.address, folder, topic=out)
        else:
            by_for_each_batch(stream(into), topics.address, folder, out)

    copies = 1 if through == "the sink" else 2
    topics.fill(into, numbers(0, 10))
    run(checkpoint)
    shutil.copytree(checkpoint, checkpoint + "-old")
    topics.fill(into, numbers(10, 20))
    run(checkpoint)
    (Path(checkpoint) / "commits" / "1").unlink()  # as if the driver had been killed: a replay is no error
    run(checkpoint)
    assert topics.values(out) == sorted(numbers(0, 20) * copies)
    topics.fill(into, numbers(20, 30))
    with pytest.raises(Exception, match="batch 1 of this query was already written, with other records"):
        run(checkpoint + "-old")
    assert topics.open_transactions() == []
    run(checkpoint)
    assert topics.values(out) == sorted(numbers(0, 30) * copies)


def test_at_least_once_needs_no_transactions(stream: Read, topics: Topics, checkpoint: str) -> None:
    into, out = topics.create(), topics.create()
    topics.fill(into, numbers(0, 10))
    query = write(stream(into), topics.address, checkpoint, topic=out, deliveryGuarantee="at-least-once")
    assert topics.values(out) == numbers(0, 10)
    listed = [each.transactional_id for each in topics.admin.list_transactions()]
    assert not any(query.id in each for each in listed)


WRONG = {
    "unknown option of the sink; did you mean topic": {"topik": "x"},
    "must name the topic": {},
    "cannot be set here: the sink chooses it": {"topic": "x", "kafka.transactional.id": "mine"},
    "must be one of exactly-once, at-least-once": {"topic": "x", "deliveryGuarantee": "perhaps"},
}


@pytest.mark.parametrize("complaint", WRONG)
def test_a_wrong_option_of_the_sink_is_refused_by_name(spark: Any, topics: Topics, complaint: str) -> None:
    with pytest.raises(Exception, match=complaint):
        save(spark.createDataFrame([("v",)], "value string"), topics.address, **WRONG[complaint])


def test_rows_that_are_no_records_are_refused(spark: Any, topics: Topics) -> None:
    with pytest.raises(Exception, match="there is no column `value`"):
        save(spark.range(3), topics.address, topic="x")
    with pytest.raises(Exception, match="column value must be string or binary, not bigint"):
        save(spark.range(3).selectExpr("id AS value"), topics.address, topic="x")
