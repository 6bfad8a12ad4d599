"""A producer's first batch is refused while the next ones are on their way: none is lost or overtaken."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from ottla.api import produce
from ottla.protocol.errors import NotLeaderOrFollower
from ottla.replication.partition import Partition
from ottla.testing.local_broker import OttlaBroker

RECORDS = 30
BUSY_S = 0.1
"""For so long the broker is busy before it refuses: in the meantime the producer sends more."""
DEADLINE_S = 30.0


@pytest.fixture
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as opened:
        opened.create_topic("t", partitions=1)
        yield opened


def test_librdkafka_loses_nothing_when_its_first_batch_is_refused(
    broker: OttlaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, refused, delivered = produce._find, [], []

    def not_yet(*wanted: object) -> Partition:
        if not refused:
            refused.append(wanted)
            time.sleep(BUSY_S)
            raise NotLeaderOrFollower("not yet")
        return find(*wanted)

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        delivered.append(error)

    monkeypatch.setattr(produce, "_find", not_yet)
    address = broker.bootstrap_servers
    one_by_one = {"batch.num.messages": 1, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, **one_by_one})
    for number in range(RECORDS):
        producer.produce("t", str(number), partition=0, on_delivery=on_delivery)
    assert producer.flush(DEADLINE_S) == 0
    assert delivered == [None] * RECORDS
    assert refused
    assert read_all(address, RECORDS) == list(range(RECORDS))


def read_all(address: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[int] = []
    end = time.monotonic() + DEADLINE_S
    _, log_end = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=DEADLINE_S)
    while len(found) < min(count, log_end) and time.monotonic() < end:
        found += [int(each.value() or b"") for each in consumer.consume(count, 0.2) if each.error() is None]
    consumer.close()
    return found
