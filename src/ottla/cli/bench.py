"""`ottla bench`: measure produce and consume throughput and latency with Ottla's own client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.options import batch_options, bootstrap_option, format_option
from ottla.cli.support.output import count, print_json, print_table
from ottla.cli.support.progress import progress
from ottla.cli.support.session import settings_for
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions
from ottla.client.errors import TimedOut
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.common.ids import TopicPartition, new_uuid
from ottla.common.units import MIB

# The measurement.

SINGLE_RECORDS = 200
SHOWN_EVERY = 2_000
TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Load:
    """What to send."""

    records: int
    size: int
    partitions: int
    acks: str
    compression: str


@dataclass(slots=True)
class PhaseTiming:
    """The duration of a phase, and the CPU time of this process in it."""

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def busy(self) -> float:
        """The share of one core that this process used; at 1.0 the client, not the broker, was the limit."""
        return self.cpu_seconds / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Report:
    """The results."""

    load: Load
    produced: PhaseTiming = field(default_factory=PhaseTiming)
    consumed: PhaseTiming = field(default_factory=PhaseTiming)
    acknowledged_ms: list[float] = field(default_factory=list)
    """The latencies of single records from send to acknowledgement, sorted."""


async def measure(cluster: Cluster, load: Load) -> Report:
    """Measure in a temporary topic, which is always deleted."""
    admin = TopicAdmin(cluster)
    topic = f"ottla-bench-{new_uuid().hex[:8]}"
    report = Report(load)
    await admin.create_topic(topic, partitions=load.partitions)
    try:
        await _produce(cluster, topic, report)
        await _consume(cluster, topic, report)
        await _one_by_one(cluster, topic, report)
    finally:
        await admin.delete_topic(topic)
    return report


@contextmanager
def _timed(pace: PhaseTiming) -> Iterator[None]:
    began, cpu = time.monotonic(), time.process_time()
    yield
    pace.seconds, pace.cpu_seconds = time.monotonic() - began, time.process_time() - cpu


async def _produce(cluster: Cluster, topic: str, report: Report) -> None:
    load, pace = report.load, report.produced
    options = settings_for(ProducerOptions, acks=load.acks, compression_type=load.compression)
    value = _value(load.size)
    with progress("producing", load.records) as shown:
        async with AsyncProducer.on(cluster, options) as producer:
            await producer.send_and_wait(topic, b"connects before the measurement starts")
            with _timed(pace):
                for number in range(load.records):
                    await producer.send(topic, value)
                    if number % SHOWN_EVERY == 0:
                        shown(number)
                await producer.flush()
    pace.records, pace.bytes = load.records, load.records * load.size


async def _consume(cluster: Cluster, topic: str, report: Report) -> None:
    load, pace = report.load, report.consumed
    options = settings_for(ConsumerOptions, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20)
    with progress("consuming", load.records) as shown:
        async with AsyncConsumer.on(cluster, options) as consumer:
            partitions = [TopicPartition(topic, index) for index in range(load.partitions)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            with _timed(pace):
                while pace.records <= load.records:  # the warm-up record does not count
                    fetched = await consumer.getmany(timeout_ms=TIMEOUT_MS)
                    if not fetched:
                        raise TimedOut(f"no records arrived within {TIMEOUT_MS // 1000} s")
                    for some in fetched.values():
                        pace.records += len(some)
                    shown(pace.records)
    pace.records, pace.bytes = load.records, load.records * load.size


async def _one_by_one(cluster: Cluster, topic: str, report: Report) -> None:
    options = settings_for(ProducerOptions, acks=report.load.acks, linger_ms=0)
    value = _value(report.load.size)
    async with AsyncProducer.on(cluster, options) as producer:
        await producer.send_and_wait(topic, value)
        for _ in range(SINGLE_RECORDS):
            began = time.monotonic()
            await producer.send_and_wait(topic, value)
            report.acknowledged_ms.append((time.monotonic() - began) * 1000)
    report.acknowledged_ms.sort()


def _value(size: int) -> bytes:
    """Return text that compresses about as well as JSON."""
    text = b"".join(
        b'{"number":%d,"name":"item-%d"}' % (each, each * 7919 % 1000) for each in range(size // 20 + 1)
    )
    return text[:size]


BUSY = 0.85


def print_report(report: Report) -> None:
    """Print the report as text, and say whether the client was the limit."""
    load = report.load
    rows = [_row("produced", report.produced), _row("consumed", report.consumed)]
    columns = ["", "records", "seconds", "records/s", "MiB/s", "this client's CPU"]
    click.echo(
        f"{count(load.records, 'record')} of {load.size} bytes, {count(load.partitions, 'partition')}, "
        f"acks {load.acks}, compression {load.compression}"
    )
    print_table(columns, rows, right=columns[1:])
    shown = "  ".join(f"p{part} {value:.2f}" for part, value in _percentiles(report).items())
    click.echo(f"one record at a time, acknowledged in ms:  {shown}")
    busy = [
        name
        for name, pace in (("produced", report.produced), ("consumed", report.consumed))
        if pace.busy > BUSY
    ]
    if busy:
        click.echo(
            f"While it {' and '.join(busy)}, this client used a full core: it was the limit, not the broker.",
            err=True,
        )


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON."""
    load = report.load
    return {
        "load": {
            name: getattr(load, name) for name in ("records", "size", "partitions", "acks", "compression")
        },
        "produced": _pace(report.produced),
        "consumed": _pace(report.consumed),
        "acknowledged_ms": {f"p{part}": round(value, 3) for part, value in _percentiles(report).items()},
    }


def _pace(pace: PhaseTiming) -> dict[str, Any]:
    return {
        "records": pace.records,
        "seconds": round(pace.seconds, 3),
        "records_per_second": round(pace.records / pace.seconds),
        "bytes_per_second": round(pace.bytes / pace.seconds),
        "client_cpu": round(pace.busy, 2),
    }


def _row(name: str, pace: PhaseTiming) -> list[str]:
    per_second = pace.records / pace.seconds
    mib = pace.bytes / pace.seconds / MIB
    return [
        name,
        f"{pace.records:,}",
        f"{pace.seconds:.2f}",
        f"{per_second:,.0f}",
        f"{mib:,.1f}",
        f"{pace.busy:.0%}",
    ]


def _percentiles(report: Report) -> dict[int, float]:
    times = report.acknowledged_ms
    return {part: times[min(len(times) - 1, len(times) * part // 100)] for part in (50, 95, 99)}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-n",
    "--records",
    type=click.IntRange(100),
    metavar="N",
    default=200_000,
    show_default=True,
    help="How many.",
)
@click.option(
    "-s",
    "--size",
    type=click.IntRange(1),
    metavar="N",
    default=200,
    show_default=True,
    help="Bytes of each value.",
)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    default=6,
    show_default=True,
    help="Of the topic.",
)
@batch_options
@format_option
@bootstrap_option
def bench(
    records: int,
    size: int,
    partitions: int,
    acks: str,
    compression: str,
    output_format: str,
    bootstrap: str,
) -> None:
    """Measure the throughput and latency of a broker.

    Works with any broker that speaks the Kafka protocol, in a temporary topic. The client is a single Python
    process: it is often the limit, and the report says so. `make bench` measures the broker itself.

    \b
    ottla bench
    ottla bench -n 1000000 --size 1000 --compression zstd
    """
    load = Load(records, size, partitions, acks, compression)
    report = session.run(bootstrap, lambda cluster: measure(cluster, load))
    if output_format == "json":
        print_json(as_json(report))
    else:
        print_report(report)
