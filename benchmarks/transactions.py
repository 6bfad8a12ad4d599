"""What transactions cost: the same records from the same producers, idempotent and in transactions of 1,000.

An idempotent producer never waits; a transactional one waits, after every 1,000 records, for its acks and
then for the answer to EndTxn. So there is a third kind between the two: idempotent, and flushed after every
1,000 records. What that loses against the first is the price of waiting for acks, whatever the broker; what
transactions lose against it is the price of the transaction itself.

All kinds take turns, in many short rounds, so that what else the machine does hits all alike: of each kind
the median speed is told, and of what it loses, which is asked round by round, the median too. All settings
are the same. `--against-kafka` tells what Apache Kafka loses here, by the same generators.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.apache_kafka import ApacheKafka

from benchmarks.measure import Cost
from benchmarks.transaction_generators import (
    PARTITIONS,
    PER_TRANSACTION,
    Generator,
    Kind,
    Load,
    Target,
    librdkafka,
    ours,
)

SIZES = (200, 1024)
CROWDS = (1, 4)


class Way(NamedTuple):
    """A way to send: who does it, in how many rounds, how many records of which size in each, how."""

    generator: Generator
    rounds: int
    counts: dict[int, int]
    kinds: tuple[Kind, ...]


GENERATORS = {
    "librdkafka": Way(
        librdkafka,
        5,  # it takes long to start
        {200: 300_000, 1024: 150_000},
        (Kind.STREAMING, Kind.FLUSHING, Kind.COMMITTING),
    ),
    "ottla": Way(ours, 15, {200: 40_000, 1024: 24_000}, tuple(Kind)),
}


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

    generator: str
    load: Load
    costs: dict[Kind, list[Cost]]

    def speed(self, kind: Kind) -> float:
        """Return records per second."""
        return self.load.records / median(each.wall_s for each in self.costs[kind])

    def loss(self, kind: Kind) -> float:
        """By how much one kind is slower than an idempotent producer in the same round, as a part of 1."""
        rounds = zip(self.costs[Kind.STREAMING], self.costs[kind], strict=True)
        return median(1 - streaming.wall_s / other.wall_s for streaming, other in rounds)

    def cpu(self, kind: Kind) -> float:
        """Return the broker's CPU seconds for a million records."""
        return median(each.broker_cpu_s for each in self.costs[kind]) / self.load.records * 1e6

    @property
    def transaction_cpu_ms(self) -> float:
        """What one transaction costs the broker, beyond its records."""
        return (self.cpu(Kind.COMMITTING) - self.cpu(Kind.FLUSHING)) * PER_TRANSACTION / 1000

    @property
    def commit_ms(self) -> float:
        """How long one producer takes for a transaction, from its first record to the answer to EndTxn."""
        return PER_TRANSACTION * self.load.producers / self.speed(Kind.COMMITTING) * 1000


def rows(broker: Target, scale: float, who: str, rounds: int | None = None) -> Iterator[Row]:
    """Run every case of a generator. (One topic at a time: what was written before is deleted.)"""
    generator, usual_rounds, counts, kinds = GENERATORS[who]
    for record_bytes in SIZES:
        for crowd in CROWDS:
            topic = f"transactions-{who}-{record_bytes}-{crowd}"
            records = max(int(counts[record_bytes] * scale), PER_TRANSACTION * crowd)
            load = Load(topic, record_bytes, crowd, records)
            admin = AdminClient({"bootstrap.servers": broker.address})
            for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
                future.result(30)
            row = Row(who, load, {kind: [] for kind in kinds})
            for _ in range(rounds or usual_rounds):
                for kind in kinds:
                    row.costs[kind].append(generator(broker, load, kind))
            for future in admin.delete_topics([topic]).values():
                future.result(30)
            yield row
