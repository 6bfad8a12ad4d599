"""Groups that are stuck and transactions that hang, as a broker reports them; and those that only look so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.clients import wait_until
from tests.integration.scraping import scrape

from ottla.api.support import health_facts
from ottla.testing.local_broker import OttlaBroker

DAY_MS = 86_400_000
STUCK_AFTER_MS = 500


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    settings = {"ottla.metrics.listen": "127.0.0.1:0", "group.initial.rebalance.delay.ms": "0"}
    with OttlaBroker(settings=settings) as running:
        yield running


@pytest.fixture
def value(broker: OttlaBroker) -> Callable[[str], float]:
    addresses = broker.broker(1).addresses
    assert addresses is not None
    where = addresses.metrics
    assert where is not None
    return lambda name: scrape(where).value(name)


def write_old(broker: OttlaBroker, topic: str, partition: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(3):
        producer.produce(topic, b"x", partition=partition, timestamp=int(time.time() * 1000) - DAY_MS)
    assert producer.flush(20) == 0


def test_a_group_with_one_partition_that_stands_still_is_stuck(
    broker: OttlaBroker, value: Callable[[str], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_facts, "STUCK_GROUP_MS", STUCK_AFTER_MS)
    broker.create_topic("orders", 2)
    broker.create_topic("read-no-more", 1)
    for topic, partition in (("orders", 0), ("orders", 1), ("read-no-more", 0)):
        write_old(broker, topic, partition)
    servers = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"}
    consumer = Consumer({**servers, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.commit(offsets=[TopicPartition("read-no-more", 0, 1)], asynchronous=False)
    consumer.subscribe(["orders"])
    wait_until(lambda: consumer.poll(0.1) is not None, "a record", 20)

    def commit(*partitions: int) -> float:
        """Commit the first record of some partitions again, as a member does that fails at the second."""
        offsets = [TopicPartition("orders", each, 1) for each in partitions]
        consumer.commit(offsets=offsets, asynchronous=False)
        return value("ottla_stuck_groups")

    commit(0, 1)
    time.sleep(1.5 * STUCK_AFTER_MS / 1000)
    assert commit(0, 1) == 0  # both move on; what it no longer reads does not count
    time.sleep(1.5 * STUCK_AFTER_MS / 1000)
    assert commit(0) == 1
    assert commit(1) == 0
    consumer.close()


def test_an_open_transaction_with_old_records_does_not_hang(
    broker: OttlaBroker, value: Callable[[str], float]
) -> None:
    broker.create_topic("history", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "backfill"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("history", b"x", partition=0, timestamp=int(time.time() * 1000) - DAY_MS)
    assert producer.flush(20) == 0
    assert value("ottla_transactions_hanging") == 0
    producer.commit_transaction(20)
