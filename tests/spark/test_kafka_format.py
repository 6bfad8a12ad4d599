"""Jobs for Spark's Kafka connector, unchanged; and positions of a real checkpoint, changed by the command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.spark.topics import Topics, numbers

from ottla.cli.pipeline.offsets import offsets_command
from ottla.spark.kafka_format import _connect_kinds, use_for_kafka


@pytest.fixture
def kafka_format() -> Iterator[None]:
    """Replace the format for one test only."""
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    kinds = [DataFrameReader, DataFrameWriter, DataStreamReader, DataStreamWriter, *_connect_kinds()]
    before = [dict(vars(kind)) for kind in kinds]
    use_for_kafka()
    yield
    for kind, names in zip(kinds, before, strict=True):
        for name in set(vars(kind)) - {"__doc__", "__module__"}:
            if name not in names:
                delattr(kind, name)
            elif vars(kind)[name] is not names[name]:
                setattr(kind, name, names[name])


def test_a_job_for_the_connector_runs_unchanged(
    spark: Any, topics: Topics, checkpoint: str, kafka_format: None
) -> None:
    from pyspark.sql import functions as sf

    into, counts, copies = topics.create(), topics.create(), topics.create()
    servers = {"kafka.bootstrap.servers": topics.address}
    rows = spark.createDataFrame([("a", "1"), ("a", "2"), ("b", "3")], "key string, value string")
    rows.write.format("kafka").options(**servers).option("topic", into).save()
    stream = (
        spark.readStream.format("kafka")
        .options(**servers)
        .option("subscribe", into)
        .option("startingOffsets", "earliest")
        .option("maxTriggerDelay", "15 minutes")
        .option("kafka.client.dns.lookup", "use_all_dns_ips")
        .load()
    )
    updates = (
        stream.groupBy("key")
        .agg(sf.count("*").cast("string").alias("value"))
        .writeStream.format("kafka")
        .options(**servers)
        .option("topic", counts)
        .option("kafka.acks", "all")
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    assert updates.awaitTermination(200)
    assert updates.exception() is None
    assert sorted((each.key, each.value) for each in topics.records(counts)) == [(b"a", b"2"), (b"b", b"1")]
    table = spark.read.load(format="kafka", subscribe=into, **servers)
    table.select("value").write.save(format="kafka", topic=copies, **servers)
    assert topics.values(copies) == ["1", "2", "3"]


def test_positions_of_a_stopped_query_are_shown_and_changed(
    spark: Any, topics: Topics, checkpoint: str, tmp_path: Path
) -> None:
    into, out = topics.create(partitions=1), topics.create()
    topics.fill(into, numbers(0, 10))

    def run() -> None:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", topics.address)
        rows = reader.option("subscribe", into).option("startingOffsets", "earliest").load()
        writer = rows.select("value").writeStream.format("ottla").option("topic", out)
        writer = writer.option("kafka.bootstrap.servers", topics.address).trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint).start()
        assert query.awaitTermination(200)
        assert query.exception() is None

    def command(*words: str) -> str:
        found = CliRunner().invoke(offsets_command, [words[0], checkpoint, *words[1:], "-b", topics.address])
        assert found.exit_code == 0, found.output
        return found.output

    run()
    assert f"{into}          0        10   10       0" in command("show") or '"behind"' in command(
        "show", "--format", "json"
    )
    assert "would be reset" in command("reset", "--to-offset", "7", "--dry-run")
    run()
    assert topics.values(out) == numbers(0, 10)
    command("reset", "--to-offset", "7", "--yes")
    run()
    assert topics.values(out) == sorted([*numbers(0, 10), *numbers(7, 10)])
    # As if the driver was killed after the sink had decided the batch, before Spark noted it.
    commits = sorted((Path(checkpoint) / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
    commits[-1].unlink()
    (Path(checkpoint) / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    words = ["reset", checkpoint, "--to-earliest", "--yes", "-b", topics.address]
    refused = CliRunner().invoke(offsets_command, words)
    assert refused.exit_code == 1
    assert "was written and is not yet noted" in refused.output
    run()
    assert topics.values(out) == sorted([*numbers(0, 10), *numbers(7, 10)])
    topics.fill(into, numbers(10, 14))
    command("reset", "--skip", "3", "--yes")
    run()
    assert topics.values(out) == sorted([*numbers(0, 10), *numbers(7, 10), *numbers(13, 14)])
    assert topics.open_transactions() == []
