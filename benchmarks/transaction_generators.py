"""Who sends the records of transactions.py: librdkafka in threads, or our own producers on one event loop.

Every producer sends its records in lots, and `Kind` says what it does after each: nothing, wait for its acks,
or commit. What is set, and what is sent, is the same for all kinds of a generator.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from enum import Enum
from typing import NamedTuple, Protocol

import uvloop
from confluent_kafka import Producer

from benchmarks.measure import Broker, Cost, Meter
from ottla.client import AsyncProducer

PER_TRANSACTION = 1_000
PARTITIONS = 6
LINGER_MS = 5


class Target(Broker, Protocol):
    """A broker to measure."""

    @property
    def address(self) -> str:
        """Where it listens."""
        ...


class Kind(Enum):
    """What a producer does after every 1,000 records."""

    STREAMING = "idempotent"
    FLUSHING = "idempotent, flushed"
    COMMITTING = "in transactions"
    COMMITTING_BEHIND = "committed in the background"
    """While the next transaction gathers its records: only our producer can do that."""


TRANSACTIONAL = (Kind.COMMITTING, Kind.COMMITTING_BEHIND)


class Load(NamedTuple):
    """What is to be sent."""

    topic: str
    record_bytes: int
    producers: int
    records: int
    """By all producers together."""

    @property
    def lots(self) -> int:
        """How often each producer sends 1,000 records."""
        return self.records // PER_TRANSACTION // self.producers


Generator = Callable[[Target, Load, Kind], Cost]


def librdkafka(broker: Target, load: Load, kind: Kind) -> Cost:
    """Send by confluent-kafka, every producer in a thread of its own."""
    producers = [_open(broker, load.topic, kind, number) for number in range(load.producers)]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            _send(producers[number], load, kind, number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(load.producers)]
    meter = Meter(broker).start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cost = meter.stop()
    if failures:
        raise failures[0]
    return cost


def _open(broker: Target, topic: str, kind: Kind, number: int) -> Producer:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": broker.address,
        "enable.idempotence": True,
        "linger.ms": LINGER_MS,
        # Otherwise TCP holds back the end of a batch for up to 40 ms, at random, of any kind.
        "socket.nagle.disable": True,
        "batch.size": 1_048_000,  # 1,000 records fit
        "message.max.bytes": 1_048_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_000_000,
        "delivery.report.only.error": True,
    }
    if kind is Kind.COMMITTING:
        settings["transactional.id"] = f"{topic}-{number}"
    producer = Producer(settings)
    if kind is Kind.COMMITTING:
        producer.init_transactions(30)
        producer.begin_transaction()
    # Once before the clock runs: librdkafka takes half a second until an idempotent producer has its id.
    for partition in range(PARTITIONS):
        producer.produce(topic, b"first", partition=partition)
    if kind is Kind.COMMITTING:
        producer.commit_transaction(30)
    producer.flush(30)
    return producer


def _send(producer: Producer, load: Load, kind: Kind, first: int) -> None:
    lot = [{"value": b"x" * load.record_bytes}] * PER_TRANSACTION
    for number in range(load.lots):
        if kind is Kind.COMMITTING:
            producer.begin_transaction()
        producer.produce_batch(load.topic, lot, partition=(first + number) % PARTITIONS)
        if kind is Kind.COMMITTING:
            producer.commit_transaction(60)
        elif kind is Kind.FLUSHING:
            producer.flush(60)
        else:
            producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("some records were not sent")


def ours(broker: Target, load: Load, kind: Kind) -> Cost:
    """Send by AsyncProducer, all producers on one loop."""
    return uvloop.run(_run_ours(broker, load, kind))


async def _run_ours(broker: Target, load: Load, kind: Kind) -> Cost:
    async with AsyncExitStack() as stack:
        producers = [
            await stack.enter_async_context(
                AsyncProducer(
                    broker.address,
                    linger_ms=LINGER_MS,
                    transactional_id=f"{load.topic}-{number}" if kind in TRANSACTIONAL else None,
                )
            )
            for number in range(load.producers)
        ]
        for number, producer in enumerate(producers):
            await _send_ours(producer, load, kind, number, PARTITIONS)  # so that everything is known
        meter = Meter(broker).start()
        async with asyncio.TaskGroup() as tasks:
            for number, producer in enumerate(producers):
                tasks.create_task(_send_ours(producer, load, kind, number, load.lots))
        return meter.stop()


async def _send_ours(producer: AsyncProducer, load: Load, kind: Kind, first: int, lots: int) -> None:
    topic, value, send = load.topic, b"x" * load.record_bytes, producer.send
    behind: asyncio.Future[None] | None = None
    for number in range(lots):
        partition = (first + number) % PARTITIONS
        if kind in TRANSACTIONAL:
            await producer.begin_transaction()
        for _ in range(PER_TRANSACTION):
            await send(topic, value, partition=partition)
        if kind is Kind.COMMITTING:
            await producer.commit_transaction()
        elif kind is Kind.COMMITTING_BEHIND:
            behind = await producer.commit_in_background()
        elif kind is Kind.FLUSHING:
            await producer.flush()
    if behind is not None:
        await behind
    await producer.flush()
