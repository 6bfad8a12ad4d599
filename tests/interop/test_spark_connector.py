"""Spark's own Kafka connector (spark-sql-kafka-0-10), unmodified, against our broker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as TransactionalProducer
from tests.integration.clients import HasAddress, Incoming, NewName, Outgoing, wait_until
from tests.integration.confluent_client import ConfluentClient
from tests.interop.fetch_jars import CONNECTOR_JARS

pyspark = pytest.importorskip("pyspark")

SPARK_HOME = Path(pyspark.__file__).parent
WORD_COUNT = SPARK_HOME / "examples/src/main/python/sql/streaming/structured_kafka_wordcount.py"
BROKER_SETTINGS = {"log.retention.ms": "-1"}  # the records of these tests are old
NOON_MS = 1_700_000_000_000
STREAM_DEADLINE_S = 150
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="module")
def jars() -> str:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    if not CONNECTOR_JARS.is_dir():
        pytest.skip(f"Spark's Kafka connector is not in {CONNECTOR_JARS}; fetch it with: make interop")
    return ",".join(map(str, sorted(CONNECTOR_JARS.glob("*.jar"))))


@pytest.fixture(scope="module")
def spark(jars: str) -> Iterator[Any]:
    """One session for the module."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers may be another Python
    builder = SparkSession.builder.config("spark.jars", jars)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


class Topics:
    """Topics as Spark's tables."""

    def __init__(self, spark: Any, address: str, checkpoints: Path) -> None:
        self.spark = spark
        self.address = address
        self.checkpoints = checkpoints

    def table(self, **options: str) -> Any:
        """Return a batch of records."""
        return self._with(self.spark.read, options).load()

    def stream(self, **options: str) -> Any:
        """Return a stream of records."""
        return self._with(self.spark.readStream, options).load()

    def write(self, rows: Any, **options: str) -> None:
        """Write a batch."""
        self._with(rows.write, options).save()

    def run(self, rows: Any, name: str, **options: str) -> Any:
        """Write what a stream has by now, and return the query, which has ended."""
        location = str(self.checkpoints / name)
        rows = rows.select("key", "value")  # with its partition, a record would go to the same one
        writer = rows.writeStream.option("checkpointLocation", location).trigger(availableNow=True)
        query = self._with(writer, options).start()
        assert query.awaitTermination(STREAM_DEADLINE_S)
        return query

    def _with(self, reader_or_writer: Any, options: dict[str, str]) -> Any:
        made = reader_or_writer.format("kafka").option("kafka.bootstrap.servers", self.address)
        for name, value in options.items():
            made = made.option(name.replace("__", "."), value)
        return made


@pytest.fixture
def topics(spark: Any, broker: HasAddress, tmp_path: Path) -> Topics:
    return Topics(spark, broker.address, tmp_path)


def send(client: ConfluentClient, topic: str, *records: Outgoing) -> None:
    with client.producer() as producer:
        producer.send(topic, records)


def values(rows: Any) -> list[str]:
    """Return the values of some records, sorted."""
    return sorted(bytes(row.value).decode() for row in rows.select("value").collect())


def received(client: ConfluentClient, topic: str, count: int) -> list[Incoming]:
    """Return the records of partition 0; `count` is how many there must be."""
    with client.consumer() as consumer:
        found = consumer.read((topic, 0), 0, count)
        assert consumer.end((topic, 0)) == count
    return found


def test_a_batch_has_every_column_of_the_record(topics: Topics, client: ConfluentClient, topic: str) -> None:
    headers = [("trace", b"\x01\x02"), ("empty", b""), ("none", None)]
    send(
        client,
        topic,
        Outgoing(b"tea", b"customer-7", headers, NOON_MS + 123),
        Outgoing(None, b"customer-7", (), NOON_MS),
    )

    first, tombstone = topics.table(subscribe=topic, includeHeaders="true").orderBy("offset").collect()

    assert (bytes(first.key), bytes(first.value)) == (b"customer-7", b"tea")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (topic, 0, 0, 0)
    assert first.timestamp == datetime.fromtimestamp((NOON_MS + 123) / 1000, UTC).replace(tzinfo=None)
    found = [(each.key, None if each.value is None else bytes(each.value)) for each in first.headers]
    assert found == headers
    assert (tombstone.value, tombstone.headers, tombstone.offset) == (None, None, 1)


def test_a_batch_is_written_with_keys_headers_and_partitions(
    topics: Topics, client: ConfluentClient, topic: str
) -> None:
    other = client.create_topic(f"{topic}.other", partitions=2)
    rows = topics.spark.sql(f"""
        SELECT '{topic}' AS topic, 'k' AS key, 'tea' AS value, 0 AS partition,
               array(named_struct('key', 'trace', 'value', CAST('abc' AS BINARY))) AS headers
        UNION ALL SELECT '{other}', 'k', 'milk', 1, NULL""")

    topics.write(rows, includeHeaders="true")

    (record,) = received(client, topic, 1)
    assert (record.key, record.value, list(record.headers)) == (b"k", b"tea", [("trace", b"abc")])
    with client.consumer() as consumer:
        (milk,) = consumer.read((other, 1), 0, 1)
    assert milk.value == b"milk"


def test_a_stream_continues_where_its_checkpoint_ends(
    topics: Topics, client: ConfluentClient, topic: str, new_name: NewName
) -> None:
    copy = client.create_topic(new_name())
    rows = topics.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="2")
    send(client, topic, *(Outgoing(b"%d" % number) for number in range(5)))

    first = topics.run(rows, "copy", topic=copy)
    send(client, topic, Outgoing(b"5"))
    topics.run(rows, "copy", topic=copy)

    assert len(first.recentProgress) >= 3, "five records, two at a time"
    assert sorted(each.value for each in received(client, copy, 6)) == [b"%d" % each for each in range(6)]


def test_a_pattern_finds_topics_and_new_partitions(
    topics: Topics, client: ConfluentClient, topic: str
) -> None:
    names = [client.create_topic(f"{topic}.{name}") for name in ("red", "green")]
    client.create_topic(f"{topic}-other")
    for name in names:
        send(client, name, Outgoing(name.encode()))
    pattern = topic.replace(".", "\\.") + "\\.(red|green|blue)"
    copy = client.create_topic(f"copy.{topic}")
    stream = topics.stream(subscribePattern=pattern, startingOffsets="earliest")

    assert values(topics.table(subscribePattern=pattern)) == sorted(names)
    topics.run(stream, "pattern", topic=copy)
    client.create_topic(f"{topic}.blue")
    send(client, f"{topic}.blue", Outgoing(b"a new topic"))
    client.grow_topic(names[0], 2)
    send(client, names[0], Outgoing(b"a new partition", partition=1))
    topics.run(stream, "pattern", topic=copy)

    expected = sorted([*names, "a new topic", "a new partition"])
    assert sorted(str(each.value, "utf-8") for each in received(client, copy, 4)) == expected


def test_offsets_and_times_say_where_to_begin_and_to_end(
    topics: Topics, client: ConfluentClient, topic: str
) -> None:
    send(
        client, topic, *(Outgoing(b"%d" % hour, timestamp_ms=NOON_MS + hour * 3_600_000) for hour in range(6))
    )

    def by_time(hour: float) -> str:
        return json.dumps({topic: {"0": int(NOON_MS + hour * 3_600_000)}})

    between = topics.table(
        subscribe=topic, startingOffsetsByTimestamp=by_time(1.5), endingOffsetsByTimestamp=by_time(4)
    )
    assert values(between) == ["2", "3"]
    since = topics.table(subscribe=topic, startingTimestamp=str(NOON_MS + 4 * 3_600_000))
    assert values(since) == ["4", "5"]
    exact = topics.table(
        assign=json.dumps({topic: [0]}),
        startingOffsets=json.dumps({topic: {"0": 1}}),
        endingOffsets=json.dumps({topic: {"0": 3}}),
    )
    assert values(exact) == ["1", "2"]
    later = {"startingOffsetsByTimestamp": by_time(100), "subscribe": topic}
    with pytest.raises(Exception, match="No offset matched"):
        topics.table(**later).count()
    assert topics.table(**later, startingOffsetsByTimestampStrategy="latest").count() == 0


def test_lost_records_fail_a_query_unless_it_says_otherwise(
    topics: Topics, client: ConfluentClient, topic: str, new_name: NewName
) -> None:
    from pyspark.errors import StreamingQueryException

    copy = client.create_topic(new_name())
    send(client, topic, *(Outgoing(b"%d" % number) for number in range(4)))
    topics.run(topics.stream(subscribe=topic, startingOffsets="earliest"), "loss", topic=copy)
    send(client, topic, *(Outgoing(b"%d" % number) for number in range(4, 8)))
    client.delete_records((topic, 0), 6)

    strict = topics.stream(subscribe=topic)
    with pytest.raises(StreamingQueryException, match=r"[Ss]ome data may have been lost"):
        topics.run(strict, "loss", topic=copy)
    topics.run(topics.stream(subscribe=topic, failOnDataLoss="false"), "loss", topic=copy)

    found = sorted(each.value for each in received(client, copy, 6))
    assert found == [b"0", b"1", b"2", b"3", b"6", b"7"]


def test_a_reader_of_committed_records_sees_no_aborted_and_no_open_ones(
    topics: Topics, client: ConfluentClient, topic: str
) -> None:
    producer = TransactionalProducer(
        {"bootstrap.servers": topics.address, "transactional.id": topic, "partitioner": "consistent"}
    )
    producer.init_transactions(30)
    for value, does_commit in (("committed", True), ("aborted", False), ("committed too", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if does_commit else producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, "open")
    assert producer.flush(30) == 0

    everything = topics.table(subscribe=topic)
    committed = topics.table(subscribe=topic, kafka__isolation__level="read_committed")
    assert values(everything) == ["aborted", "committed", "committed too", "open"]
    assert values(committed) == ["committed", "committed too"]

    copy = client.create_topic(f"{topic}.copy")
    stream = topics.stream(
        subscribe=topic, startingOffsets="earliest", kafka__isolation__level="read_committed"
    )
    topics.run(stream, "committed", topic=copy)
    producer.commit_transaction(30)
    topics.run(stream, "committed", topic=copy)
    expected = [b"committed", b"committed too", b"open"]
    assert sorted(each.value for each in received(client, copy, 3)) == expected


def test_the_word_count_of_sparks_documentation_runs_with_only_the_address_changed(
    jars: str, broker: HasAddress, client: ConfluentClient, topic: str
) -> None:
    command = [str(SPARK_HOME / "bin/spark-submit"), "--jars", jars]
    for key, value in SETTINGS.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(WORD_COUNT), broker.address, "subscribe", topic]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    job = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert job.stdout is not None
    printed: list[str] = []
    reader = threading.Thread(target=printed.extend, args=(job.stdout,), daemon=True)
    reader.start()
    try:
        wait_until(lambda: "Batch: 0" in "".join(printed), "the first batch", STREAM_DEADLINE_S)
        send(client, topic, Outgoing(b"tea milk tea"), Outgoing(b"milk tea"))
        wait_until(lambda: is_counted("".join(printed)), "the words", STREAM_DEADLINE_S)
    except AssertionError as error:
        error.add_note("".join(printed))
        raise
    finally:
        os.killpg(job.pid, signal.SIGTERM)
        job.wait(30)
        reader.join(30)


def is_counted(printed: str) -> bool:
    """Return whether the console sink has printed the counts of all words."""
    rows = {tuple(cell.strip() for cell in line.strip("|").split("|")) for line in printed.splitlines()}
    return {("tea", "3"), ("milk", "2")} <= {row for row in rows if len(row) == 2}
