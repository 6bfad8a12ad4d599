"""What transactions cost: the same records from the same producers, idempotent and in transactions of 1,000.

Both kinds take turns, several times, so that what else the machine does hits both alike: of each kind the
median is told. All settings are the same for both. An idempotent producer never waits; a transactional one
waits, after every 1,000 records, for its acks and for the answer to EndTxn: that is its API, and with one
producer of small records it is nearly all that is measured, whatever the broker. `--against-kafka` tells what
Apache Kafka loses here, by the same generator.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.apache_kafka import ApacheKafka

from benchmarks.measure import Cost, Meter

PER_TRANSACTION = 1_000
PARTITIONS = 6
ROUNDS = 5
CASES = [(200, 1, 400_000), (200, 4, 400_000), (1024, 1, 200_000), (1024, 4, 200_000)]
"""Bytes of a record, how many producers send at once, and how many records they send together."""


class Target(Protocol):
    """A broker to measure."""

    @property
    def address(self) -> str:
        """Where it listens."""
        ...

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        ...


class KafkaTarget(ApacheKafka):
    """Apache Kafka, measured."""

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        with open(f"/proc/{self._process.pid}/stat") as stat:
            user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """One case: what each kind of producer did."""

    record_bytes: int
    producers: int
    records: int
    idempotent: list[Cost]
    transactional: list[Cost]

    @property
    def loss(self) -> float:
        """By how much transactions are slower, as a part of 1."""
        return 1 - self.speed(self.transactional) / self.speed(self.idempotent)

    def speed(self, costs: list[Cost]) -> float:
        """Return records per second."""
        return self.records / median(each.wall_s for each in costs)

    def cpu(self, costs: list[Cost]) -> float:
        """Return the broker's CPU seconds for a million records."""
        return median(each.broker_cpu_s for each in costs) / self.records * 1e6

    @property
    def transaction_cpu_ms(self) -> float:
        """What one transaction costs the broker, beyond its records."""
        return (self.cpu(self.transactional) - self.cpu(self.idempotent)) * PER_TRANSACTION / 1000

    @property
    def commit_ms(self) -> float:
        """How long one producer takes for a transaction, from its first record to the answer to EndTxn."""
        return PER_TRANSACTION * self.producers / self.speed(self.transactional) * 1000


def rows(broker: Target, scale: float) -> Iterator[Row]:
    """Run every case."""
    for record_bytes, crowd, count in CASES:
        records = int(count * scale)
        topic = f"transactions-{record_bytes}-{crowd}"
        admin = AdminClient({"bootstrap.servers": broker.address})
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
            future.result(30)
        row = Row(record_bytes, crowd, records, [], [])
        for turn in range(ROUNDS):
            names = [f"{topic}-{turn}-{index}" for index in range(crowd)]
            row.idempotent.append(run(broker, row, topic, [None] * crowd))
            row.transactional.append(run(broker, row, topic, names))
        for future in admin.delete_topics([topic]).values():
            future.result(30)
        yield row


def run(broker: Target, row: Row, topic: str, transactional_ids: list[str] | list[None]) -> Cost:
    """Send the records, with one producer for every id."""
    producers = [_producer(broker, topic, each) for each in transactional_ids]
    chunks = row.records // PER_TRANSACTION // len(producers)
    failures: list[BaseException] = []

    def work(index: int) -> None:
        try:
            is_transactional = transactional_ids[index] is not None
            _send(producers[index], topic, row.record_bytes, chunks, index, is_transactional)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(producers))]
    meter = Meter(broker).start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cost = meter.stop()
    if failures:
        raise failures[0]
    return cost


def _producer(broker: Target, topic: str, transactional_id: str | None) -> Producer:
    settings = {
        "bootstrap.servers": broker.address,
        "enable.idempotence": True,
        "linger.ms": 5,
        # Otherwise TCP holds back the end of a batch for up to 40 ms, at random, of either kind.
        "socket.nagle.disable": True,
        "batch.size": 1_048_000,  # 1,000 records fit
        "message.max.bytes": 1_048_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_000_000,
        "delivery.report.only.error": True,
    }
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    producer = Producer(settings)
    if transactional_id is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    # Once before the clock runs: librdkafka takes half a second until an idempotent producer has its id.
    for partition in range(PARTITIONS):
        producer.produce(topic, b"first", partition=partition)
    if transactional_id is not None:
        producer.commit_transaction(30)
    producer.flush(30)
    return producer


def _send(
    producer: Producer, topic: str, record_bytes: int, chunks: int, first: int, is_transactional: bool
) -> None:
    chunk = [{"value": b"x" * record_bytes}] * PER_TRANSACTION
    for number in range(chunks):
        if is_transactional:
            producer.begin_transaction()
        producer.produce_batch(topic, chunk, partition=(first + number) % PARTITIONS)
        if is_transactional:
            producer.commit_transaction(60)
        else:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("some records were not sent")
