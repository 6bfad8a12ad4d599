"""Members of a consumer group that copy what they read in transactions, as KIP-447 has it.

A worker's transaction tells who the worker is in the group, so a member that has lost its partitions cannot
commit what it read from them. With libraries that cannot tell (aiokafka) every partition needs its own
transactional id; see transaction_pipeline.py for that.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from tests.integration import confluent_client, kafka_python_client
from tests.integration.clients import DEADLINE_S, Outgoing, Place

Read = tuple[Place, int, bytes]


class Worker(ABC):
    """One member: reads, and writes what it read in transactions."""

    errors: tuple[type[Exception], ...]

    @abstractmethod
    def poll(self) -> Sequence[Read]:
        """Return what has arrived, and take part in rebalances."""

    @abstractmethod
    def has_partitions(self) -> bool:
        """Return whether it has something to read."""

    @abstractmethod
    def copy(self, topic: str, records: Sequence[Outgoing], offsets: Mapping[Place, int]) -> None:
        """Write records and offsets in a transaction; raise one of `errors` if that cannot be."""

    @abstractmethod
    def step_back(self) -> None:
        """Abort, and read from what is committed again."""

    @abstractmethod
    def close(self) -> None: ...


class ConfluentWorker(Worker):
    errors = (KafkaException,)

    def __init__(self, address: str, group: str, source: str, transactional_id: str) -> None:
        common = {"bootstrap.servers": address, "log_level": 0, **confluent_client.QUICK}
        self._producer = Producer({**common, "transactional.id": transactional_id, "linger.ms": 0})
        self._producer.init_transactions(DEADLINE_S)
        self._consumer = Consumer(
            {
                **common,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
                "session.timeout.ms": 6_000,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.subscribe([source])

    def poll(self) -> Sequence[Read]:
        messages = [each for each in [self._consumer.poll(0.1)] if each is not None and not each.error()]
        return [((each.topic(), each.partition()), each.offset(), each.value()) for each in messages]

    def has_partitions(self) -> bool:
        return bool(self._consumer.assignment())

    def copy(self, topic: str, records: Sequence[Outgoing], offsets: Mapping[Place, int]) -> None:
        self._producer.begin_transaction()
        for record in records:
            self._producer.produce(topic, record.value, partition=record.partition)
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        who = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(wanted, who, DEADLINE_S)
        self._producer.commit_transaction(DEADLINE_S)

    def step_back(self) -> None:
        self._producer.abort_transaction(DEADLINE_S)
        for each in self._consumer.committed(self._consumer.assignment(), DEADLINE_S):
            each.offset = max(each.offset, 0)
            self._consumer.seek(each)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonWorker(Worker):
    errors = (KafkaError,)

    def __init__(self, address: str, group: str, source: str, transactional_id: str) -> None:
        common: dict[str, Any] = {"bootstrap_servers": address, **kafka_python_client.QUICK}
        self._producer = KafkaProducer(transactional_id=transactional_id, **common)
        self._producer.init_transactions()
        self._consumer = KafkaConsumer(
            source,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            session_timeout_ms=6_000,
            fetch_max_wait_ms=100,
            max_poll_records=3,
            **common,
        )

    def poll(self) -> Sequence[Read]:
        polled = self._consumer.poll(timeout_ms=100)
        return [
            ((each.topic, each.partition), each.offset, each.value)
            for records in polled.values()
            for each in records
        ]

    def has_partitions(self) -> bool:
        return bool(self._consumer.assignment())

    def copy(self, topic: str, records: Sequence[Outgoing], offsets: Mapping[Place, int]) -> None:
        self._producer.begin_transaction()
        for record in records:
            self._producer.send(topic, value=record.value, partition=record.partition)
        wanted = {
            KafkaPythonPartition(*place): OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(wanted, self._consumer.group_metadata())
        self._producer.commit_transaction()

    def step_back(self) -> None:
        self._producer.abort_transaction()
        for each in self._consumer.assignment():
            self._consumer.seek(each, self._consumer.committed(each) or 0)

    def close(self) -> None:
        self._consumer.close()
        self._producer.close(0)


WORKERS: dict[str, type[Worker]] = {"confluent-kafka": ConfluentWorker, "kafka-python": KafkaPythonWorker}


class WorkerThread(threading.Thread):
    """A worker at work until it is told to stop; `count` is how many transactions it has committed."""

    def __init__(self, make: Any, sink: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self._make = make
        self._sink = sink
        self._partitions = partitions
        self._stopped = threading.Event()
        self.count = 0
        self.has_partitions = False
        self.refusals: list[Exception] = []
        self.failure: BaseException | None = None
        self.start()

    def stop(self) -> None:
        """Let it leave the group."""
        self._stopped.set()
        self.join(DEADLINE_S)

    def run(self) -> None:
        try:
            worker = self._make()
            while not self._stopped.is_set():
                if records := worker.poll():
                    self._copy(worker, records)
                self.has_partitions = worker.has_partitions()
            worker.close()
        except BaseException as failure:
            self.failure = failure

    def _copy(self, worker: Worker, records: Sequence[Read]) -> None:
        made = [Outgoing(value, partition=offset % self._partitions) for _, offset, value in records]
        try:
            worker.copy(self._sink, made, {place: offset + 1 for place, offset, _ in records})
            self.count += 1
        except worker.errors as error:
            self.refusals.append(error)
            worker.step_back()
