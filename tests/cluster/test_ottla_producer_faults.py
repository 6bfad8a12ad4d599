"""Our own producer while its broker is killed, paused, cut off, or loses the topic: nothing acked is lost.

Every test ends with the same look at the log: what was acknowledged is there, once, in order, at its offset.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from tests.integration.clients import wait_until
from tests.integration.confluent_client import ConfluentClient
from tests.integration.cutting_proxy import CuttingProxy
from tests.integration.ottla_faces import make_producer

from ottla.client.errors import TimedOut
from ottla.protocol.errors import UnknownTopicOrPartition
from ottla.testing.broker_process import BrokerProcess

__all__ = ["make_producer"]

QUICK = {
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_max_ms": 200,
    "request_timeout_ms": 1_000,
    "batch_size": 2_000,
}


@pytest.fixture
def own_broker(tmp_path) -> Iterator[BrokerProcess]:
    settings = {"auto.create.topics.enable": "false"}
    broker = BrokerProcess(tmp_path / "data", settings=settings).start()
    yield broker
    broker.kill()


@pytest.fixture
def topic(own_broker) -> str:
    with closing(ConfluentClient(own_broker.address)) as client:
        return client.create_topic("orders")


class Load:
    """A thread that sends numbered records until it is stopped."""

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._is_over = threading.Event()
        self.deliveries: list[Any] = []
        self.failures: list[Exception] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                number = len(self.deliveries)
                self.deliveries.append(self._producer.send(self._topic, b"%d" % number))
                if number % 20 == 0:
                    time.sleep(0.001)
        except Exception as error:
            self.failures.append(error)

    def acked(self) -> int:
        return sum(each.done() and each.exception() is None for each in list(self.deliveries))

    def wait_for(self, more: int) -> None:
        """Wait until this many more records are acknowledged."""
        target = self.acked() + more
        wait_until(lambda: self.acked() >= target or bool(self.failures), f"{more} more records")

    @contextmanager
    def running(self) -> Iterator[Load]:
        self._thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            self._thread.join(60)
        assert self.failures == []


def check_log(broker: BrokerProcess, topic: str, load: Load) -> None:
    offsets = [each.result(60).offset for each in load.deliveries]
    known = [offset for offset in offsets if offset >= 0]
    with closing(ConfluentClient(broker.address)) as client, client.consumer() as consumer:
        found = consumer.read((topic, 0), 0, len(offsets))
        assert [int(each.value) for each in found] == list(range(len(offsets)))
        assert consumer.end((topic, 0)) == len(offsets)
    assert all(offset in (number, -1) for number, offset in enumerate(offsets))
    assert len(known) > len(offsets) // 2


def test_a_killed_broker_that_returns_has_everything_once_and_in_order(own_broker, make_producer, topic):
    producer = make_producer(own_broker.address, **QUICK)
    with Load(producer, topic).running() as load:
        for _ in range(3):
            load.wait_for(300)
            own_broker.kill()
            own_broker.start()
        load.wait_for(300)
    producer.flush()
    check_log(own_broker, topic, load)


def test_a_broker_that_stops_cleanly_is_waited_for(own_broker, make_producer, topic):
    producer = make_producer(own_broker.address, **QUICK)
    with Load(producer, topic).running() as load:
        load.wait_for(300)
        own_broker.restart()
        load.wait_for(300)
    producer.flush()
    check_log(own_broker, topic, load)


def test_a_broker_that_hangs_past_the_request_timeout_gets_nothing_twice(own_broker, make_producer, topic):
    producer = make_producer(own_broker.address, **QUICK)
    with Load(producer, topic).running() as load:
        load.wait_for(300)
        os.kill(own_broker.pid, signal.SIGSTOP)
        time.sleep(2.5)  # what is asked in this time is not answered within its timeout of 1 s
        os.kill(own_broker.pid, signal.SIGCONT)
        load.wait_for(300)
    producer.flush()
    check_log(own_broker, topic, load)


@pytest.mark.parametrize("seed", range(3))
def test_answers_that_are_lost_in_the_middle_of_many_lose_and_double_nothing(
    own_broker, make_producer, topic, seed
):
    choice = random.Random(seed)
    with CuttingProxy(own_broker.address, lambda _: choice.random() < 0.05) as proxy:
        producer = make_producer(proxy.address, **QUICK)
        with Load(producer, topic).running() as load:
            wait_until(lambda: proxy.cuts >= 10 or bool(load.failures), "ten cuts")
        producer.flush()
        check_log(own_broker, topic, load)


def test_a_broker_that_stays_away_fails_everything_in_time_and_close_returns(
    own_broker, make_producer, topic
):
    producer = make_producer(own_broker.address, **{**QUICK, "delivery_timeout_ms": 2_000})
    producer.send(topic, b"first").result(30)
    own_broker.kill()
    begun = time.monotonic()
    late = [producer.send(topic, b"x") for _ in range(100)]
    for each in late:
        with pytest.raises(TimedOut, match=r"connection refused|lost the connection"):
            each.result(30)
    assert 1.5 < time.monotonic() - begun < 15
    producer.close()


def test_a_full_buffer_before_a_dead_broker_holds_senders_only_until_the_delivery_timeout(
    own_broker, make_producer, topic
):
    producer = make_producer(
        own_broker.address, **{**QUICK, "delivery_timeout_ms": 1_500, "buffer_memory": 20_000}
    )
    producer.send(topic, b"first").result(30)
    own_broker.kill()
    begun = time.monotonic()
    sent = [producer.send(topic, b"x" * 1_000) for _ in range(40)]  # twice as much as the buffer holds
    assert time.monotonic() - begun < 15
    for each in sent:
        with pytest.raises(TimedOut):
            each.result(30)
    producer.close()


def test_a_deleted_topic_fails_its_records_in_time_and_works_again_when_it_is_back(
    own_broker, make_producer, topic
):
    producer = make_producer(own_broker.address, **{**QUICK, "delivery_timeout_ms": 2_000})
    producer.send(topic, b"old").result(10)
    with closing(ConfluentClient(own_broker.address)) as client:
        client.delete_topic(topic)
        wait_until(lambda: client.partition_count(topic) == 0, "the topic to be gone")
        lost = producer.send(topic, b"lost")
        with pytest.raises(TimedOut) as caught:
            lost.result(10)
        assert isinstance(caught.value.__cause__, UnknownTopicOrPartition)
        client.create_topic(topic)
        assert producer.send(topic, b"new").result(10).offset == 0


def test_a_transaction_survives_the_kill_of_its_broker(own_broker, make_producer, topic):
    producer = make_producer(own_broker.address, transactional_id="t", **QUICK)
    producer.begin_transaction()
    producer.send(topic, b"before")
    producer.flush()
    own_broker.kill()
    own_broker.start()
    producer.send(topic, b"after")
    producer.commit_transaction()
    with closing(ConfluentClient(own_broker.address)) as client, client.consumer() as consumer:
        assert [each.value for each in consumer.read((topic, 0), 0, 2)] == [b"before", b"after"]
