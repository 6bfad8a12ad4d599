"""Kafka Streams, Connect with an exactly-once source and MirrorMaker 2 on three brokers, under kill -9.

Brokers and Java programs die while records flow; then every record is there once. `OTTLA_TEST_KILLS` is how
often each of them dies (2 unless set), and the load grows with it.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib import request
from urllib.error import HTTPError, URLError

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.fetch_jars import CONNECT_FILE_JARS
from tests.interop.java_process import JavaProcess, compile_java, require_java

from ottla.testing.broker_process import free_port
from ottla.testing.cluster_process import ClusterProcess, wait_until

KILLS = int(os.environ.get("OTTLA_TEST_KILLS", "2"))
pytestmark = [pytest.mark.timeout(300 + 60 * KILLS)]
BATCH = 500
PARTITIONS = 3
WITHIN_S = 150.0
WORDS = ("amber", "basalt", "cobalt", "dust", "ember", "flint", "granite")
WORKER = """
bootstrap.servers={bootstrap}
group.id=exact-connect
listeners=http://127.0.0.1:{port}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=exact-configs
offset.storage.topic=exact-offsets
status.storage.topic=exact-status
offset.storage.partitions=3
status.storage.partitions=1
exactly.once.source.support=enabled
offset.flush.interval.ms=200
session.timeout.ms=6000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=0
producer.transaction.timeout.ms=10000
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    require_java()
    settings = {
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    with ClusterProcess(tmp_path_factory.mktemp("exact"), settings=settings) as started:
        yield started


def create(cluster: ClusterProcess, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(each, PARTITIONS, 3) for each in topics]).values():
        made.result(30)


def produce(cluster: ClusterProcess, topic: str, values: Sequence[str]) -> None:
    """Store each value once, in its order, whatever dies meanwhile."""
    settings = {"enable.idempotence": True, "delivery.timeout.ms": 120_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    failed: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(120) == 0
    assert failed == []


class CommittedReader:
    """Reads all committed records of a topic, in the order of each partition."""

    def __init__(self, cluster: ClusterProcess, topic: str) -> None:
        settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", **settings})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        self.records: list[tuple[str, str]] = []

    def read(self, count: int, within_s: float = WITHIN_S) -> list[tuple[str, str]]:
        """Return once there are `count` records and no more come, or when time is up."""
        deadline, quiet = time.monotonic() + within_s, 0
        while time.monotonic() < deadline and not (len(self.records) >= count and quiet >= 3):
            message = self._consumer.poll(1.0)
            if message is None:
                quiet += 1
            elif message.error() is None:
                quiet = 0
                self.records.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
        self._consumer.close()
        return self.records


def under_kills(
    cluster: ClusterProcess, feed: Callable[[int], None], programs: Sequence[JavaProcess], inner: str
) -> int:
    """Feed batches while programs and leaders of the partition `inner`-0 die in turns; return how many."""
    batches = 0
    for number in range(KILLS):
        feed(batches)
        programs[number % len(programs)].kill()
        feed(batches + 1)
        programs[number % len(programs)].start()
        leader = cluster.leader_of(inner, 0)
        cluster.kill(leader)
        feed(batches + 2)
        cluster.start(leader)
        cluster.wait_until_in_sync(60)
        batches += 3
    return batches


def test_streams_counts_every_record_once(cluster: ClusterProcess, tmp_path: Path) -> None:
    """A repartition topic and a changelog: the counts of each word are 1, 2, 3, ... without a gap."""
    create(cluster, "lines", "totals")
    path = compile_java("Totals", tmp_path)
    programs = [
        JavaProcess(
            tmp_path / f"streams-{number}.log", "Totals", cluster.bootstrap, "totals-app",
            str(tmp_path / f"state-{number}"), path=[path],
        )
        for number in range(2)
    ]  # fmt: skip
    sent: dict[str, int] = defaultdict(int)

    def feed(batch: int) -> None:
        words = [WORDS[(batch + index) % len(WORDS)] for index in range(BATCH)]
        produce(cluster, "lines", [f"{word} {batch}-{index}" for index, word in enumerate(words)])
        for word in words:
            sent[word] += 1

    with ExitStack() as stack:
        for each in programs:
            stack.enter_context(each)
        feed(0)
        wait_until(lambda: ("totals", 0) in cluster.view().partitions, 30)
        batches = 1 + under_kills(cluster, lambda batch: feed(batch + 1), programs, "totals")
        found: dict[str, list[str]] = defaultdict(list)
        for word, total in CommittedReader(cluster, "totals").read(batches * BATCH):
            found[word].append(total)
        assert {word: len(totals) for word, totals in found.items()} == sent
        assert all(totals == [str(at + 1) for at in range(len(totals))] for totals in found.values())


def call(port: int, method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    asked.method = method
    with request.urlopen(asked, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def is_running(ports: Sequence[int], connector: str) -> bool:
    for port in ports:
        try:
            status = call(port, "GET", f"/connectors/{connector}/status")
        except (HTTPError, URLError, OSError):
            continue
        return bool(status["tasks"]) and all(each["state"] == "RUNNING" for each in status["tasks"])
    return False


def is_created(port: int, name: str, config: dict[str, str]) -> bool:
    try:
        call(port, "PUT", f"/connectors/{name}/config", config)
    except (HTTPError, URLError, OSError):
        return False
    return True


@pytest.fixture
def workers(cluster: ClusterProcess, tmp_path: Path) -> Iterator[tuple[list[JavaProcess], list[int]]]:
    """Two workers of Connect, distributed, with exactly-once sources."""
    if not CONNECT_FILE_JARS.is_dir():
        pytest.skip(f"there is no {CONNECT_FILE_JARS}; fetch it with: make interop")
    ports = [free_port() for _ in range(2)]
    with ExitStack() as stack:
        started = []
        for number, port in enumerate(ports):
            properties = tmp_path / f"worker-{number}.properties"
            properties.write_text(WORKER.format(bootstrap=cluster.bootstrap, port=port))
            main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
            process = JavaProcess(tmp_path / f"worker-{number}.log", main_class, str(properties))
            started.append(stack.enter_context(process))
        yield started, ports


def test_connect_and_mirror_maker_copy_every_record_once(
    cluster: ClusterProcess, workers: tuple[list[JavaProcess], list[int]], tmp_path: Path
) -> None:
    """A file becomes a topic, and MirrorMaker 2 copies that topic's neighbour, on the same two workers."""
    programs, ports = workers
    create(cluster, "orders", "from-file")
    file = tmp_path / "lines.txt"
    file.write_text("")
    source = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "exactly.once.support": "required",
        "tasks.max": "1",
        "file": str(file),
        "topic": "from-file",
        "batch.size": "1000000",  # at a full batch it keeps lines back until the file grows
    }
    raw = "org.apache.kafka.connect.converters.ByteArrayConverter"
    mirror = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "exactly.once.support": "required",
        "tasks.max": "2",
        "source.cluster.alias": "west",
        "target.cluster.alias": "east",
        "source.cluster.bootstrap.servers": cluster.bootstrap,
        "target.cluster.bootstrap.servers": cluster.bootstrap,
        "source.consumer.isolation.level": "read_committed",
        "consumer.isolation.level": "read_committed",
        "topics": "orders",
        "replication.factor": "3",
        "offset-syncs.topic.replication.factor": "3",
        "sync.topic.acls.enabled": "false",
        "key.converter": raw,
        "value.converter": raw,
    }
    wait_until(lambda: is_created(ports[0], "file", source), 90, programs[0].tail)
    wait_until(lambda: is_created(ports[0], "mirror", mirror), 60, programs[0].tail)
    for name in ("file", "mirror"):
        wait_until(lambda name=name: is_running(ports, name), 60, programs[0].tail)
    sent: list[str] = []

    def feed(batch: int) -> None:
        values = [f"{batch:03}-{index:05}" for index in range(BATCH)]
        with file.open("a") as lines:
            lines.writelines(value + "\n" for value in values)
        produce(cluster, "orders", values)
        sent.extend(values)

    under_kills(cluster, feed, programs, "from-file")
    for topic in ("from-file", "west.orders"):
        records = [value for _, value in CommittedReader(cluster, topic).read(len(sent))]
        assert sorted(records) == sent, f"{topic}: {len(records)} of {len(sent)}"
