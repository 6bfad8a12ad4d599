"""What transactions cost: the same records from the same producers, idempotent and in transactions of 1,000.

Both kinds take turns, several times, so that what else the machine does hits both alike: of each kind the
median is told. An idempotent producer never waits; a transactional one waits for its acks, and for the answer
to EndTxn, after every 1,000 records.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.measure import Cost, Meter
from ottla.testing.broker_process import BrokerProcess

PER_TRANSACTION = 1_000
PARTITIONS = 6
ROUNDS = 5
CASES = [(200, 1), (200, 4), (1024, 1), (1024, 4)]
"""Bytes of a record, and how many producers send at once."""


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


def rows(broker: BrokerProcess, records: int) -> Iterator[Row]:
    """Run every case."""
    for record_bytes, crowd in CASES:
        topic = f"transactions-{record_bytes}-{crowd}"
        admin = AdminClient({"bootstrap.servers": broker.address})
        for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
            future.result(30)
        row = Row(record_bytes, crowd, records, [], [])
        for turn in range(ROUNDS):
            names = [f"{topic}-{turn}-{index}" for index in range(crowd)]
            row.idempotent.append(run(broker, row, topic, [None] * crowd))
            row.transactional.append(run(broker, row, topic, names))
        yield row


def run(broker: BrokerProcess, row: Row, topic: str, transactional_ids: list[str] | list[None]) -> Cost:
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


def _producer(broker: BrokerProcess, topic: str, transactional_id: str | None) -> Producer:
    settings = {
        "bootstrap.servers": broker.address,
        "enable.idempotence": True,
        "linger.ms": 5,
        # 1,000 records in one batch: with a second one, librdkafka waits for tens of milliseconds.
        "batch.size": 1_048_000,
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
    producer.list_topics(topic, timeout=30)
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
