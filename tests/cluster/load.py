"""Heavy, steady load through confluent-kafka, with all acknowledgements recorded in a history."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.history import History, Place

DEADLINE_S = 60.0
UNDER_WAY = 400
"""How many records of one producer may be unacknowledged: enough to keep the broker busy."""

QUICK: dict[str, Any] = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "socket.timeout.ms": 10_000,
    "log_level": 0,  # a broker that is not there is no news
    "topic.metadata.refresh.interval.ms": 1_000,
}


def quiet(_error: KafkaError) -> None:
    """Take connection errors in silence: brokers die here all the time."""


SECURITY: dict[str, Mapping[str, Any]] = {}
"""How clients log in, by the addresses that they are given; nothing for most."""


def client_config(address: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what every client of these tests is made with, and `more`."""
    security = SECURITY.get(address, {})
    return {"bootstrap.servers": address, "error_cb": quiet, **QUICK, **security, **(more or {})}


def create_topic(
    address: str, name: str, partitions: int, configs: Mapping[str, str] | None = None, *, replicas: int = 1
) -> None:
    """Create a topic and return when the broker has acknowledged it."""
    topic = NewTopic(name, partitions, replicas, config=dict(configs or {}))
    admin = AdminClient(client_config(address))
    admin.create_topics([topic])[name].result(DEADLINE_S)


class LoadProducer:
    """One producer that survives any number of broker deaths, until it is closed."""

    def __init__(
        self,
        address: str,
        history: History,
        name: str,
        places: Iterable[Place],
        *,
        exactly_once: bool = True,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.failures: list[str] = []
        """What was not delivered, and why; must stay empty."""
        self._history = history
        self._streams = [history.stream(name, place, exactly_once=exactly_once) for place in places]
        defaults: dict[str, Any] = {
            "enable.idempotence": exactly_once,
            "acks": "all",
            "delivery.timeout.ms": int(DEADLINE_S * 1000),
            "linger.ms": 1,
            "batch.num.messages": 30,
            "error_cb": self._on_error,
        }
        self._producer = Producer(client_config(address, {**defaults, **(config or {})}))

    @property
    def under_way(self) -> int:
        """How many records are neither acknowledged nor given up."""
        return len(self._producer)

    def send(self, count: int, choose: random.Random) -> None:
        """Hand over `count` records, all to one partition, unless too many are in flight already."""
        self._producer.poll(0)
        if self.under_way >= UNDER_WAY:
            self._producer.poll(0.005)
            return
        stream = choose.choice(self._streams)
        topic, partition = self._history.streams[stream].place
        for _ in range(count):
            number, value = self._history.next_value(stream)
            self._producer.produce(
                topic, value, partition=partition, on_delivery=self._when_delivered(stream, number)
            )

    def settle(self, within_s: float = DEADLINE_S) -> None:
        """Wait until everything is acknowledged."""
        left = self._producer.flush(within_s)
        assert left == 0, f"{self.name}: {left} records are in flight after {within_s:g} s"
        assert not self.failures, f"{self.name}: {self.failures[:5]}"

    def _when_delivered(self, stream: int, number: int) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failures.append(f"record {number} of stream {stream}: {error}")
            else:
                offset = message.offset()
                # A record without a response counts as delivered when a later one is; its offset is unknown.
                known = offset is not None and offset >= 0
                self._history.acknowledge(stream, number, offset if known else None)

        return delivered

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"fatal: {error}")


def send_for(producers: Sequence[LoadProducer], seconds: float, choose: random.Random) -> None:
    """Keep all producers busy for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for producer in producers:
            producer.send(choose.randint(1, 40), choose)
