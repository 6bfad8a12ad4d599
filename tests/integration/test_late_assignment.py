"""The answer that gives a member of librdkafka a partition comes after the member has stopped waiting for it.

librdkafka waits for one heartbeat interval, and then does not ask for the assignment again (decision 311).
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import Self

from confluent_kafka import Consumer, Producer
from tests.integration.frame_proxy import Call, FrameProxy

from ottla.protocol.api_keys import ApiKey
from ottla.testing.cluster_process import wait_until
from ottla.testing.local_broker import OttlaBroker

INTERVAL_S = 1.0
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
ASSIGNMENT_OF_TWO_TOPICS = 80
"""Answers with fewer bytes have no assignment, or one of a single topic."""
PARTITIONS = 4


class LateAnswers(FrameProxy):
    """Holds up the first answer with an assignment of two topics."""

    is_held_up = False

    async def on_answer(self, call: Call, answer: bytes) -> None:
        """Let the client give up on it."""
        is_it = call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and len(answer) > ASSIGNMENT_OF_TWO_TOPICS
        if is_it and not self.is_held_up:
            self.is_held_up = True
            await asyncio.sleep(1.6 * INTERVAL_S)


class Member:
    """A member of the group, on a thread of its own."""

    def __init__(self, address: str, topics: list[str]) -> None:
        config = {"group.id": "g", "group.protocol": "consumer", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({"bootstrap.servers": address, "log_level": 0, **config})
        self._topics: list[list[str]] = [topics]
        self._ending = threading.Event()
        self.read: set[tuple[str | None, int | None]] = set()
        """The partitions that it has read from."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(30)

    def subscribe(self, topics: list[str]) -> None:
        """Change what it subscribes to."""
        self._topics.append(topics)

    def _run(self) -> None:
        while not self._ending.is_set():
            if self._topics:
                self._consumer.subscribe(self._topics.pop(0))
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.add((message.topic(), message.partition()))
        self._consumer.close()


def test_a_partition_is_read_though_the_answer_that_gave_it_was_late() -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(OttlaBroker(settings=SETTINGS))
        proxy = stack.enter_context(LateAnswers(broker.bootstrap_servers))
        broker.create_topic("shared", PARTITIONS)
        broker.create_topic("own", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

        def send() -> None:
            for partition in range(PARTITIONS):
                producer.produce("shared", b"x", partition=partition)
            producer.produce("own", b"x", partition=0)
            producer.flush(10)

        first = stack.enter_context(Member(broker.bootstrap_servers, ["shared"]))
        second = stack.enter_context(Member(proxy.address, ["own"]))
        send()
        wait_until(lambda: len(first.read) == PARTITIONS and ("own", 0) in second.read)
        second.subscribe(["own", "shared"])  # it keeps what it has, and gets more once `first` gave it up

        def reads_more() -> bool:
            send()
            return any(topic == "shared" for topic, _ in second.read)

        wait_until(reads_more)
        assert proxy.is_held_up
