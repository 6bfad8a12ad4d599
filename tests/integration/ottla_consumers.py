"""What the tests of our consumer share: topics, records that librdkafka writes, quick consumers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.consumer import AsyncConsumer, RebalanceListener
from ottla.common.ids import TopicPartition, new_uuid

QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}
PROTOCOLS = (
    ("classic", "range"),
    ("classic", "roundrobin"),
    ("classic", "sticky"),
    ("classic", "cooperative-sticky"),
    ("consumer", None),
)
SOON_S = 30
_numbers = itertools.count()


@pytest.fixture(scope="module")
def admin(broker):
    return AdminClient({"bootstrap.servers": broker.address})


@pytest.fixture
def new_topic(admin):
    made = []

    def create(partitions=1, **configs):
        name = f"consumer.{new_uuid().hex[:8]}.{next(_numbers)}"
        topic = NewTopic(name, partitions, 1, config={k.replace("_", "."): v for k, v in configs.items()})
        admin.create_topics([topic])[name].result(SOON_S)
        made.append(name)
        return name

    yield create
    for each in admin.delete_topics(made).values() if made else ():
        if each.exception(SOON_S):
            continue


@pytest.fixture(scope="module")
def write(broker):
    """Write records with librdkafka."""

    def write(topic, records, codec="none"):
        producer = LibrdkafkaProducer(
            {"bootstrap.servers": broker.address, "compression.type": codec, "linger.ms": 20}
        )
        for record in records:
            producer.produce(topic, **record)
        assert producer.flush(SOON_S) == 0

    return write


def places(topic, count):
    return [TopicPartition(topic, index) for index in range(count)]


def open_consumer(broker, **options):
    options = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300} | options
    if options.get("group_protocol") == "consumer":
        del options["heartbeat_interval_ms"]
    return AsyncConsumer(broker.address, **options)


async def read(consumer, count, within_s=SOON_S):
    """Read until so many records are there."""
    found = []
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            found += records
    return found


async def until(condition, *consumers):
    """Let consumers ask for records until a condition holds; return what they got."""
    found = []
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, f"{[sorted(each.assignment()) for each in consumers]}"
        for consumer in consumers:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                found += records
    return found


def group_options(protocol, assignor):
    options = {"group_protocol": protocol, "group_id": f"g-{new_uuid().hex[:10]}"}
    if assignor is not None:
        options["partition_assignment_strategy"] = assignor
    return options


class Notes(RebalanceListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, set[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.notes.append(("assigned", set(partitions)))

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.notes.append(("revoked", set(partitions)))

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.notes.append(("lost", set(partitions)))
