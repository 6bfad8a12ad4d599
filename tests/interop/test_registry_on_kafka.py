"""`ottla registry serve` beside Apache Kafka: one process is elected through a group, as Confluent's do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.integration.clients import wait_until
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.fetch_jars import KAFKA_JARS

from ottla.testing.broker_process import free_port

SOON_S = 60
USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]})


class RegistryProcess:
    """`ottla registry serve` in a process of its own."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._log = folder / f"registry-{self.url.rpartition(':')[2]}.log"
        command = [sys.executable, "-m", "ottla.cli", "registry", "serve", "--bootstrap", bootstrap]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--listen", self.url.removeprefix("http://")],
                stdout=log,
                stderr=log,
                env={**os.environ},
            )
        wait_until(self._answers, f"a registry (see {self._log})", SOON_S)

    def _answers(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def client(self) -> SchemaRegistryClient:
        return SchemaRegistryClient({"url": self.url})

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(SOON_S)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if shutil.which("java") is None or not KAFKA_JARS.is_dir():
        pytest.skip("java or Kafka's jars are missing; fetch them with: make interop")
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def schema(number: int) -> Schema:
    return Schema(f'{{"type":"fixed","name":"F{number}","size":1}}', "AVRO")


def register(process: RegistryProcess, number: int) -> int:
    """Register a schema; a client tries again while no process is elected."""
    found: list[int] = []

    def tried() -> bool:
        try:
            found.append(process.client().register_schema(f"s-{number}", schema(number)))
        except SchemaRegistryError as error:
            if error.http_status_code < 500:
                raise
            return False
        return True

    wait_until(tried, f"schema {number} to be registered", SOON_S)
    return found[0]


def stored(bootstrap: str) -> dict[str, list[dict[str, Any]]]:
    """Return the records of `_schemas` by subject, as any consumer reads them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "enable.auto.commit": False})
    partition = TopicPartition("_schemas", 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=10)
    consumer.assign([partition])
    found: dict[str, list[dict[str, Any]]] = {}
    deadline = time.monotonic() + SOON_S
    while consumer.position([partition])[0].offset < end:
        message = consumer.poll(1)
        if message is None:  # control records at the end move the position, and give no message
            assert time.monotonic() < deadline, f"nothing after {consumer.position([partition])} of {end}"
            continue
        key = json.loads(message.key())
        if key["keytype"] == "SCHEMA":
            found.setdefault(key["subject"], []).append(json.loads(message.value()))
    consumer.close()
    return found


def test_one_process_is_elected_and_another_after_a_kill(kafka: ApacheKafka, tmp_path: Path) -> None:
    processes = [RegistryProcess(kafka.address, tmp_path) for _ in range(3)]
    try:
        ids = [register(processes[number % 3], number) for number in range(9)]
        assert ids == list(range(1, 10)), "every process takes changes, and ids are dense"
        for process in processes:
            assert process.client().get_latest_version("s-8").schema_id == 9
        leader = min(processes, key=lambda each: each.url)
        leader.end(signal.SIGKILL)
        rest = [each for each in processes if each is not leader]
        ids += [register(rest[number % 2], number) for number in range(9, 15)]
        assert ids == list(range(1, 16))
        places = {name: [each["id"] for each in records] for name, records in stored(kafka.address).items()}
        assert places == {f"s-{number}": [number + 1] for number in range(15)}
        for process in rest:
            assert sorted(process.client().get_subjects()) == sorted(places)
    finally:
        for process in processes:
            if process.process.poll() is None:
                process.end()


def test_serializers_work_and_a_restart_finds_everything(kafka: ApacheKafka, tmp_path: Path) -> None:
    first = RegistryProcess(kafka.address, tmp_path)
    context = SerializationContext("users", MessageField.VALUE)
    try:
        value = AvroSerializer(first.client(), USER)({"name": "Ada"}, context)
    finally:
        first.end()
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce("users", value)
    assert producer.flush(SOON_S) == 0
    second = RegistryProcess(kafka.address, tmp_path)
    try:
        consumer = Consumer(
            {"bootstrap.servers": kafka.address, "group.id": "users", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["users"])
        message = consumer.poll(SOON_S)
        assert message is not None
        assert message.error() is None
        assert AvroDeserializer(second.client())(message.value(), context) == {"name": "Ada"}
        consumer.close()
    finally:
        second.end()


def test_a_restart_of_kafka_costs_no_schema(kafka: ApacheKafka, tmp_path: Path) -> None:
    process = RegistryProcess(kafka.address, tmp_path)
    try:
        before = register(process, 100)
        kafka.kill()
        kafka.start()
        after = register(process, 101)
        assert after == before + 1
        assert process.client().get_latest_version("s-100").schema_id == before
    finally:
        process.end()
