"""Connect with a real engine: files and made-up records, transforms, dead letters, restarts."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.connect_stage import RunningWorker
from tests.waiting import wait_until

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

WITHIN_S = 120.0


@pytest.fixture(scope="module")
def worker(spark_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    with RunningWorker(spark_broker.address, tmp_path_factory.mktemp("connect")) as running:
        yield running


def records(broker: BrokerProcess, topic: str) -> list[Any]:
    """All committed records of a topic."""
    found = []
    with Consumer(broker.address, isolation_level="read_committed", enable_auto_commit=False) as consumer:
        partitions = [TopicPartition(topic, each.index) for each in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            for batch in consumer.getmany(timeout_ms=200).values():
                found += batch
    return found


def test_files_through_transforms_to_parquet_with_dead_letters(
    worker: RunningWorker, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    lines = tmp_path / "in"
    lines.mkdir()
    (lines / "a.jsonl").write_text(
        "".join(json.dumps({"id": n, "who": {"name": f"n{n}"}}) + "\n" for n in range(50))
    )
    source = {
        "connector.class": "FileSource",
        "file": str(lines),
        "topic": "people",
        "format": "jsonl",
        "key.field": "id",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "transforms": "flat,route",
        "transforms.flat.type": "org.apache.kafka.connect.transforms.Flatten$Value",
        "transforms.flat.delimiter": "_",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "people",
        "transforms.route.replacement": "persons",
        "topic.creation.default.partitions": "2",
    }
    with Admin(spark_broker.address) as admin:
        admin.create_topic("persons", partitions=3)
        admin.create_topic("dead")
    assert worker("PUT", "/connectors/people-in/config", source).status == 201
    sink = {
        "connector.class": "FileSink",
        "topics": "persons",
        "path": str(tmp_path / "out"),
        "format": "parquet",
        "batch.interval.ms": "200",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
        "tasks.max": "2",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    assert worker("PUT", "/connectors/people-out/config", sink).status == 201
    worker.wait_for("people-in", "RUNNING", "RUNNING", within_s=WITHIN_S)

    def rows() -> list[Any]:
        return [
            row for each in (tmp_path / "out").rglob("*.parquet") for row in pq.read_table(each).to_pylist()
        ]

    wait_until(lambda: len(rows()) == 50, "50 rows", WITHIN_S)
    with Producer(spark_broker.address) as producer:
        producer.send("persons", b"not json", key=b"x", partition=1)
    # A file that grows is followed.
    with (lines / "a.jsonl").open("a") as file:
        file.write(json.dumps({"id": 50, "who": {"name": "n50"}}) + "\n")
    wait_until(lambda: len(rows()) == 51, "the new line", WITHIN_S)
    assert sorted((row["id"], row["who_name"]) for row in rows()) == [(n, f"n{n}") for n in range(51)]
    wait_until(lambda: len(records(spark_broker, "dead")) == 1, "the dead letter", WITHIN_S)
    (letter,) = records(spark_broker, "dead")
    headers = {name: value.decode() for name, value in letter.headers}
    assert letter.value == b"not json"
    assert headers["__connect.errors.topic"] == "persons"
    assert headers["__connect.errors.partition"] == "1"
    assert headers["__connect.errors.stage"] == "VALUE_CONVERTER"
    assert headers["__connect.errors.connector.name"] == "people-out"
    assert sorted(
        record.key for record in records(spark_broker, "persons") if record.value != b"not json"
    ) == sorted(str(n).encode() for n in range(51))
    topics = worker("GET", "/connectors/people-out/topics").body
    assert topics == {"people-out": {"topics": ["persons"]}}


def test_a_record_that_is_not_tolerated_fails_the_task_with_the_reason(
    worker: RunningWorker, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    with Admin(spark_broker.address) as admin:
        admin.create_topic("strict")
    with Producer(spark_broker.address) as producer:
        producer.send("strict", b"not json")
    sink = {
        "connector.class": "FileSink",
        "topics": "strict",
        "path": str(tmp_path),
        "batch.interval.ms": "100",
    }
    worker("PUT", "/connectors/strict/config", sink)
    worker.wait_for("strict", "RUNNING", "FAILED", within_s=WITHIN_S)
    trace = worker("GET", "/connectors/strict/status").body["tasks"][0]["trace"]
    assert "Converting byte[] to Kafka Connect data failed" in trace
    worker("DELETE", "/connectors/strict")


def test_nothing_is_lost_or_doubled_when_the_engine_is_killed(
    worker: RunningWorker, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    made = {"connector.class": "DatagenSource", "topic": "made", "rate": "400", "iterations": "4000"}
    worker("PUT", "/connectors/made/config", made)
    sink = {
        "connector.class": "FileSink",
        "topics": "made",
        "path": str(tmp_path),
        "batch.interval.ms": "100",
    }
    worker("PUT", "/connectors/made-out/config", sink)

    def written() -> list[int]:
        return [
            json.loads(line)["order_id"]
            for each in tmp_path.rglob("*.jsonl")
            for line in each.read_text().splitlines()
        ]

    wait_until(lambda: len(written()) > 200, "the first records", WITHIN_S)
    os.kill(worker.engine.jvm_pid, signal.SIGKILL)
    before = len(written())
    wait_until(lambda: len(written()) > before + 200, "more after the JVM was killed", WITHIN_S)
    os.kill(worker.engine.pid, signal.SIGKILL)
    wait_until(lambda: len(set(written())) == 4000, "all records", WITHIN_S)
    assert sorted(written()) == list(range(4000))
    assert sorted(json.loads(each.value)["order_id"] for each in records(spark_broker, "made")) == list(
        range(4000)
    )
    # Stopped, and set back: the source makes the last ten again.
    worker("PUT", "/connectors/made/stop")
    worker.wait_for("made", "STOPPED")
    assert worker("GET", "/connectors/made/offsets").body["offsets"][0]["offset"] == {"count": 4000}
    change = {"offsets": [{"partition": {"task": 0}, "offset": {"count": 3990}}]}
    assert worker("PATCH", "/connectors/made/offsets", change).status == 200
    worker("PUT", "/connectors/made/resume")
    wait_until(lambda: len(written()) == 4010, "the last ten again", WITHIN_S)
