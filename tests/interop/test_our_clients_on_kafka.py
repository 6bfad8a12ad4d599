"""Our clients against Apache Kafka itself: the tests that they pass against us, in one Kafka, file by file.

Every test of these files that talks to the module's broker talks to Kafka here (see tests/conftest.py). Left
out is what other libraries do, what starts brokers of its own, and what Kafka 4.1 has no request for. What
the tests that kill their broker show, is shown here once more with Kafka: last, as it is killed for that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration import group_table, transaction_stage
from tests.integration.ottla_faces import open_face
from tests.interop.apache_kafka import ROOT, ApacheKafka
from tests.interop.fetch_jars import KAFKA_JARS

from ottla.client import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, TimedOut, TopicPartition
from ottla.common.clock import SystemClock

WITHIN_S = 280
SOON_S = 60
FACES: dict[str, tuple[type[Any], type[Any]]] = {
    "sync": (Producer, Consumer),
    "async": (AsyncProducer, AsyncConsumer),
}

SETTINGS = {
    **group_table.BROKER_SETTINGS,
    **transaction_stage.BROKER_SETTINGS,
    "group.consumer.max.session.timeout.ms": "60000",
}
"""What the modules ask of their brokers, all together."""

FILES = {
    "test_clients.py": "ottla",
    "test_clients_and_topics.py": "ottla",
    "test_groups.py": "ottla and not restart and not kill",
    "test_transactions.py": "ottla",
    "test_transactions_fencing.py": "ottla",
    "test_ottla_producer.py": "not wrong_address and not not_there_is_named",
    "test_ottla_consumer.py": "",
    "test_ottla_consumer_groups.py": "",
    "test_ottla_read_committed.py": "",
    "test_ottla_transactions.py": "",
    "test_admin.py": "not cluster",
}
"""The files of tests/integration, and which of their tests."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if shutil.which("java") is None or not KAFKA_JARS.is_dir():
        pytest.skip("java or Kafka's jars are missing; fetch them with: make interop")
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), properties=SETTINGS) as running:
        yield running


@pytest.mark.parametrize("name", FILES)
def test_what_holds_against_us_holds_against_kafka(kafka: ApacheKafka, name: str) -> None:
    given = {"OTTLA_TEST_BOOTSTRAP": kafka.address, "OTTLA_TEST_DATA": str(kafka.data)}
    path = Path("tests/integration") / name
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path), "-k", FILES[name]]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-12_000:]}\n{done.stderr[-2_000:]}"


@pytest.mark.parametrize("face", FACES)
def test_a_topic_that_is_deleted_under_a_producer_is_named_and_takes_records_when_it_is_back(
    kafka: ApacheKafka, face: str
) -> None:
    topic = f"deleted-under-{face}"
    producer = open_face(FACES[face][0], kafka.address, delivery_timeout_ms=3_000, request_timeout_ms=1_000)
    try:
        with Admin(kafka.address) as admin:
            admin.create_topic(topic, partitions=1)
            send_and_wait(producer, topic, b"before")
            admin.delete_topic(topic)
            with pytest.raises(TimedOut, match=f"no partition {topic}-0 any more.*create it again"):
                for _ in range(100):  # Kafka takes some until it has deleted the topic
                    send_and_wait(producer, topic, b"lost")
            admin.create_topic(topic, partitions=1)
        send_and_wait(producer, topic, b"after")
    finally:
        producer.close()
    with Consumer(kafka.address, auto_offset_reset="earliest") as reader:
        reader.assign([TopicPartition(topic, 0)])
        assert reader.getone(timeout_ms=SOON_S * 1000).value == b"after"


def test_producers_and_groups_outlive_a_kafka_that_is_killed_and_lose_nothing(kafka: ApacheKafka) -> None:
    topics = {face: f"outlives-{face}" for face in FACES}
    with Admin(kafka.address) as admin:
        for topic in topics.values():
            admin.create_topic(topic, partitions=1)
    clients = {face: open_both(kafka, face, topic) for face, topic in topics.items()}
    try:
        for face, (producer, consumer) in clients.items():
            send_all(producer, topics[face], range(50))
            producer.flush()
            assert read_up_to(consumer, 49) == list(range(50))
            consumer.commit()
        kafka.kill()
        waiting = {
            face: send_all(producer, topics[face], range(50, 100)) for face, (producer, _) in clients.items()
        }
        kafka.start()
        for face, (producer, consumer) in clients.items():
            producer.flush()
            assert all(each.done() and each.exception() is None for each in waiting[face])
            assert sorted(set(read_up_to(consumer, 99))) == list(range(50, 100))  # some perhaps twice
            consumer.commit()
    finally:
        for producer, consumer in clients.values():
            producer.close()
            consumer.close()
    for topic in topics.values():  # in the log each is there once, and in order
        with Consumer(kafka.address, auto_offset_reset="earliest") as reader:
            reader.assign([TopicPartition(topic, 0)])
            assert read_up_to(reader, 99) == list(range(100))


def open_both(kafka: ApacheKafka, face: str, topic: str) -> tuple[Any, Any]:
    """Return a producer, and a consumer of a group, that do not give up while Kafka starts."""
    producer_type, consumer_type = FACES[face]
    producer = open_face(producer_type, kafka.address, delivery_timeout_ms=SOON_S * 2_000)
    consumer = open_face(
        consumer_type,
        kafka.address,
        group_id=topic,
        topics=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    return producer, consumer


def send_and_wait(producer: Any, topic: str, value: bytes) -> None:
    if isinstance(producer, Producer):
        producer.send(topic, value).result(SOON_S)
    else:
        producer.send_and_wait(topic, value)


def send_all(producer: Any, topic: str, numbers: range) -> list[Any]:
    """Send numbers, and return their deliveries."""
    return [producer.send(topic, b"%d" % number) for number in numbers]


def read_up_to(consumer: Any, last: int) -> list[int]:
    """Return the numbers that come, up to this one."""
    clock = SystemClock()
    deadline_ms = clock.mono_ms() + SOON_S * 1000
    seen: list[int] = []
    while not seen or seen[-1] != last:
        assert clock.mono_ms() < deadline_ms, f"read only {seen}"
        for records in consumer.getmany(timeout_ms=500).values():
            seen += [int(record.value) for record in records]
    return seen
