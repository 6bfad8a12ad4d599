"""Fills the input topic, a slice at a time, so that every fault strikes a pipeline that has work to do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.spark.fault_injection.checkpoint import Offsets
from tests.spark.fault_injection.numbers import (
    COPY_TOPICS,
    INPUT_TOPIC,
    TOTALS_TOPIC,
    WINDOW_TOPIC,
    closing_record,
    record_of,
)

PARTITIONS = 4
DEADLINE_S = 120.0


class Feed:
    """Sends numbers in order, to one partition after the other."""

    def __init__(self, bootstrap: str, replicas: int) -> None:
        self._bootstrap = bootstrap
        self._next = 0
        self._closing = 0
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(name, PARTITIONS, replicas) for name in (INPUT_TOPIC, *COPY_TOPICS, WINDOW_TOPIC)]
        # Every version of a row is to be counted: the table of totals is not compacted here.
        topics.append(NewTopic(TOTALS_TOPIC, PARTITIONS, replicas))
        for created in admin.create_topics(topics).values():
            created.result(DEADLINE_S)

    def send_up_to(self, end: int) -> None:
        """Send all numbers below `end` that have not been sent."""
        self._send([(number, record_of(number)) for number in range(self._next, end)])
        self._next = max(self._next, end)

    @property
    def sent(self) -> int:
        """How many numbers have been sent."""
        return self._next

    @contextmanager
    def flowing(self, rate: int) -> Iterator[None]:
        """Send so many numbers a second while the block runs; raise if they could not be sent."""
        stopping = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self._flow, rate, stopping)
            try:
                yield
            finally:
                stopping.set()
                sending.result()

    def _flow(self, rate: int, stopping: threading.Event) -> None:
        while not stopping.wait(1.0):
            self.send_up_to(self._next + rate)

    def send_closing(self) -> None:
        """Send a record to every partition that moves event time past every window."""
        self._closing += 1
        first = self._closing * PARTITIONS
        self._send([(-number, closing_record(number)) for number in range(first, first + PARTITIONS)])

    def is_covered_by(self, offsets: Offsets) -> bool:
        """Return whether a query that has come to `offsets` has read everything."""
        read = offsets.get(INPUT_TOPIC, {})
        return all(read.get(str(partition), 0) >= end for partition, end in self.ends.items())

    def _send(self, records: list[tuple[int, bytes]]) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
                "delivery.timeout.ms": int(DEADLINE_S * 1000),
                "log_level": 0,
            }
        )
        for number, value in records:
            partition = number % PARTITIONS
            producer.produce(INPUT_TOPIC, value, str(number), partition)
            self.ends[partition] += 1
            producer.poll(0)
        unsent = producer.flush(DEADLINE_S)
        if unsent:
            raise RuntimeError(f"{unsent} records could not be sent within {DEADLINE_S:g} s")
