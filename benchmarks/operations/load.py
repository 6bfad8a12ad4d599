"""A producer that never stops (confluent-kafka, idempotent, acks=all), and what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

TOPIC, PARTITIONS = "orders", 6


@dataclass
class Load:
    """A producer that never stops, and what was acknowledged."""

    bootstrap: str
    acked: list[set[int]] = field(default_factory=lambda: [set() for _ in range(PARTITIONS)])
    failed: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    per_second: float = 150.0

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        number = 0
        while not self._ending.wait(1 / self.per_second):
            partition = number % PARTITIONS
            sent = time.monotonic()

            def done(
                error: KafkaError | None,
                _: Message,
                at: int = partition,
                value: int = number,
                sent: float = sent,
            ) -> None:
                if error is None:
                    self.acked[at].add(value)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - sent)
                else:
                    self.failed[error.name()] += 1

            try:
                producer.produce(TOPIC, b"%d" % number + b"." * 200, partition=partition, on_delivery=done)
                number += 1
            except BufferError:
                producer.poll(0.1)
            producer.poll(0)
        producer.flush(60)
