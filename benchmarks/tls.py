"""The cost of TLS: the same records over a plain and a TLS listener, produced and consumed by librdkafka.

    python -m benchmarks --only tls                    part of `make bench`
    python -m benchmarks.tls --against-kafka           beside Apache Kafka with TLS, in one run

The broker's CPU seconds per GB are what counts: they do not depend on how fast the load generator is.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Broker, Cost, Meter, machine
from benchmarks.payloads import values
from ottla.cli.security.certificates import DevelopmentCa
from ottla.cli.security.set_up import write_secret
from ottla.testing.broker_process import BrokerProcess, free_port

CHUNK = 10_000
MAX_QUEUED = 200_000
PARTITIONS = 12
DAYS = 2


@dataclass(frozen=True)
class Listener:
    """One row: a listener of a broker, and how clients reach it."""

    name: str
    broker: Broker
    options: Mapping[str, str | int | bool]


@dataclass(frozen=True)
class Case:
    """What is sent and read."""

    record_bytes: int
    records: int

    @property
    def gigabytes(self) -> float:
        """The size of all records."""
        return self.record_bytes * self.records / 1e9


CASES = (Case(1024, 400_000), Case(200, 1_000_000))


class Certificates:
    """The files of a development CA."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        ca = DevelopmentCa("benchmark", datetime.now(UTC), DAYS)
        self.ca, self.broker = folder / "ca.pem", folder / "broker.pem"
        self.ca.write_bytes(ca.certificate_pem)
        write_secret(self.broker, ca.broker_pem("broker", ["127.0.0.1"]) + ca.certificate_pem)

    @property
    def keys(self) -> dict[str, str]:
        """The keys of a broker, Ottla's or Kafka's."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def client(self, address: str) -> dict[str, str | int | bool]:
        """The options of a client of a TLS listener."""
        return {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": str(self.ca)}


@contextmanager
def ottla_listeners(folder: Path, certificates: Certificates) -> Iterator[list[Listener]]:
    """Run a broker with a plain and a TLS listener."""
    address = f"127.0.0.1:{free_port()}"
    settings = {**certificates.keys, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL"}
    arguments = ("--listen", f"SSL://{address}")
    with BrokerProcess(folder, settings=settings, arguments=arguments) as broker:
        yield [
            Listener("Ottla, plain", broker, {"bootstrap.servers": broker.address}),
            Listener("Ottla, TLS", broker, certificates.client(address)),
        ]


class _KafkaCpu:
    """The CPU time of Apache Kafka."""

    def __init__(self, pid: int) -> None:
        import psutil

        self._process = psutil.Process(pid)

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def kafka_listeners(folder: Path, certificates: Certificates) -> Iterator[list[Listener]]:
    """Run Apache Kafka with a plain and a TLS listener."""
    from tests.interop.apache_kafka import ApacheKafka

    folder.mkdir(parents=True)
    address = f"127.0.0.1:{free_port()}"
    protocols = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL"}
    properties = {**certificates.keys, **protocols}
    with ApacheKafka(folder, listeners={"SSL": address}, properties=properties) as kafka:
        cpu = _KafkaCpu(kafka._process.pid)
        yield [
            Listener("Apache Kafka, plain", cpu, {"bootstrap.servers": kafka.address}),
            Listener("Apache Kafka, TLS", cpu, certificates.client(address)),
        ]


def produce(listener: Listener, case: Case, topic: str) -> Cost:
    """Create the topic, send all records with acks=all, and wait for the acks."""
    admin = AdminClient(dict(listener.options))
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(30)
    failed: list[object] = []
    producer = Producer(
        {
            **listener.options,
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failed.append(error),
        }
    )
    producer.list_topics(topic, timeout=30)
    pool = values(case.record_bytes)
    chunk = [{"value": pool[index % len(pool)]} for index in range(CHUNK)]
    meter = Meter(listener.broker).start()
    for number in range(case.records // CHUNK):
        producer.produce_batch(topic, chunk, partition=number % PARTITIONS)
        producer.poll(0)
        while len(producer) > MAX_QUEUED:
            producer.poll(0.01)
    unsent = producer.flush(120)
    cost = meter.stop()
    if unsent or failed:
        raise RuntimeError(f"{listener.name}: {unsent} records were not sent, {len(failed)} failed")
    return cost


def consume(listener: Listener, case: Case, topic: str) -> Cost:
    """Read all records from the beginning."""
    consumer = Consumer(
        {
            **listener.options,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 10_000_000,
            "queued.max.messages.kbytes": 1_000_000,
            "queued.min.messages": 5_000_000,
            "check.crcs": False,
        }
    )
    consumer.list_topics(topic, timeout=30)
    meter = Meter(listener.broker).start()
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    seen, wanted = 0, case.records // CHUNK * CHUNK
    while seen < wanted:
        messages = consumer.consume(min(CHUNK, wanted - seen), timeout=30)
        if not messages:
            raise RuntimeError(f"{listener.name}: only {seen} records came")
        seen += len(messages)
    cost = meter.stop()
    consumer.close()
    return cost


def table(listeners: list[Listener], scale: float = 1.0) -> Table:
    """Measure every case on every listener, in turns; a first small case warms each up."""
    made = Table("bytes", "listener", title=f"TLS: librdkafka, {PARTITIONS} partitions, acks=all")
    for head in ("in MB/s", "in CPU s/GB", "out MB/s", "out CPU s/GB"):
        made.add_column(head, justify="right")
    for index, listener in enumerate(listeners):
        warm = Case(1024, 2 * CHUNK)
        produce(listener, warm, f"warm-{index}")
        consume(listener, warm, f"warm-{index}")
    for case in (replace(each, records=int(each.records * scale)) for each in CASES):
        for index, listener in enumerate(listeners):
            topic = f"tls-{case.record_bytes}-{index}"
            cells = []
            for cost in (produce(listener, case, topic), consume(listener, case, topic)):
                mark = "*" if cost.generator_is_full else ""
                cells.append(f"{case.gigabytes * 1000 / cost.wall_s:,.0f}{mark}")
                cells.append(f"{cost.broker_cpu_s / case.gigabytes:.2f}")
            made.add_row(str(case.record_bytes), listener.name, *cells)
    return made


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the records")
    parser.add_argument("--against-kafka", action="store_true", help="Apache Kafka too")
    options = parser.parse_args()
    console = Console(width=100)
    console.print(f"machine: {machine()}")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        root = Path(folder)
        certificates = Certificates(root / "certificates")
        scale = 0.25 if options.quick else 1.0
        with ottla_listeners(root / "ottla", certificates) as ours:
            if not options.against_kafka:
                console.print(table(ours, scale))
                return
            with kafka_listeners(root / "kafka", certificates) as theirs:
                console.print(table([*ours, *theirs], scale))


if __name__ == "__main__":
    main()
