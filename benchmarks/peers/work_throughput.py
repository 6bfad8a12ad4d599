"""(a) produce, (b) consume, (e) the same on three brokers; the main rows by several generators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, TopicPartition

from benchmarks.peers import topics
from benchmarks.peers.load import Figures, load, measure
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server
from benchmarks.throughput import open_consumer

MAIN_RECORDS = {200: 10_000_000, 1024: 3_000_000}
"""By their size: gigabytes."""
MATRIX_RECORDS = {200: 5_000_000, 1024: 1_500_000}
REPLICATED_RECORDS = {200: 2_000_000, 1024: 600_000}
WARM_RECORDS = 1_000_000


@dataclass(frozen=True)
class Case:
    """A topic that is filled, and then read."""

    record_bytes: int
    partitions: int
    acks: str
    compression: str = "none"
    generator: str = "librdkafka"
    producers: int = 1
    consumers: Sequence[int] = (1,)
    reads_cold: bool = False
    replicas: int = 1
    volume: Mapping[int, int] = field(default_factory=MAIN_RECORDS.copy)

    @property
    def full_records(self) -> int:
        """How many records a full run takes."""
        return self.volume[self.record_bytes]

    @property
    def name(self) -> str:
        """How tables call it."""
        size = "1 KB" if self.record_bytes == 1024 else f"{self.record_bytes} B"
        parts = [size, f"{self.partitions} partitions", f"acks={self.acks}", self.compression, self.generator]
        return ", ".join(parts) + (f" x{self.producers}" if self.producers > 1 else "")


MAIN = [
    Case(size, 12, acks, consumers=(1, 8), reads_cold=True) for size in (1024, 200) for acks in ("1", "all")
]
GENERATORS = [
    *(Case(1024, 12, "1", generator=generator) for generator in ("rawfetch", "javatools", "ours")),
    Case(1024, 12, "1", producers=2),
]
REPLICATED = [
    Case(size, 12, "all", replicas=3, producers=crowd, volume=REPLICATED_RECORDS)
    for size in (1024, 200)
    for crowd in (1, 2)
]


def main_rows(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """12 partitions without compression, by all generators."""
    yield from _run(server, scale, [*MAIN, *GENERATORS])


def matrix(server: Server, scale: Scale, record_bytes: int) -> Iterator[tuple[str, Figures]]:
    """Every number of partitions with every compression and both acks, for one size of records."""
    cases = [
        Case(record_bytes, partitions, acks, compression, volume=MATRIX_RECORDS)
        for partitions in (12, 1, 100)
        for compression in ("none", "lz4", "zstd")
        for acks in ("1", "all")
    ]
    yield from _run(server, scale, cases)


def replicated(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """Produce and consume with three brokers."""
    yield from _run(server, scale, REPLICATED)


def _run(server: Server, scale: Scale, cases: Sequence[Case]) -> Iterator[tuple[str, Figures]]:
    """Fill a topic for every case, and read it; a case that fails does not keep the others from running.

    Topics stay until the server is closed, for it would remove gigabytes while another case is measured; we
    take them out of the page cache, else it has to look for memory.
    """
    _warm_up(server, scale, cases[0])
    for number, case in enumerate(cases):
        if any(scale.wants(name) for name in _names(case)):
            topic = f"load-{number}"
            try:
                topics.create(server, [topic], case.partitions, case.replicas)
                yield from _fill_and_read(server, scale, case, topic)
                topics.forget_pages(server.folder)
            except (RuntimeError, TimeoutError, KafkaException) as error:
                yield case.name, {"failed": str(error)}


def _fill_and_read(server: Server, scale: Scale, case: Case, topic: str) -> Iterator[tuple[str, Figures]]:
    records = scale.count(case.full_records) // case.producers * case.producers
    filled = _produce(server, case, topic, records)
    if case.generator != "rawfetch":  # which only reads
        yield f"produce {case.name}", filled
    yield from _consume(server, case, topic, scale, records)


def _names(case: Case) -> Iterator[str]:
    yield f"produce {case.name}"
    for crowd in case.consumers:
        yield _reading(case, crowd)
    if case.reads_cold:
        yield _reading(case, 1, "cold")


def _reading(case: Case, consumers: int, temperature: str = "page cache") -> str:
    return f"consume {case.name}, {consumers} consumer{'s' * (consumers > 1)}, {temperature}"


def _warm_up(server: Server, scale: Scale, case: Case) -> None:
    """Let every server do some work uncounted: a JVM compiles what is hot, Python imports what is late."""
    topics.create(server, ["warm-up"], case.partitions, case.replicas)
    _produce(server, case, "warm-up", scale.exact(WARM_RECORDS))
    measure(server, [_reader(server, case, "warm-up", range(case.partitions), scale.exact(WARM_RECORDS))])


def _produce(server: Server, case: Case, topic: str, records: int) -> Figures:
    share = records // case.producers
    options = {
        "address": server.address,
        "topic": topic,
        "partitions": case.partitions,
        "record_bytes": case.record_bytes,
        "acks": case.acks,
        "compression": case.compression,
        "records": share,
    }
    found = measure(server, [load(f"{case.generator}.produce", **options)] * case.producers)
    return {**found, **_amount(case, share * case.producers)}


def _consume(
    server: Server, case: Case, topic: str, scale: Scale, records: int
) -> Iterator[tuple[str, Figures]]:
    for crowd in case.consumers:
        if not scale.wants(_reading(case, crowd)):
            continue
        # Records go to partitions in turn, in chunks, so who shares them must ask how many are where.
        ends = _ends(server, topic, case.partitions)
        shares = [range(first, case.partitions, crowd) for first in range(crowd)]
        loads = [_reader(server, case, topic, mine, sum(ends[i] for i in mine)) for mine in shares]
        yield _reading(case, crowd), {**measure(server, loads), **_amount(case, records)}
    if case.reads_cold and scale.wants(_reading(case, 1, "cold")):
        topics.forget_pages(server.folder)
        found = measure(server, [_reader(server, case, topic, range(case.partitions), records)])
        yield _reading(case, 1, "cold"), {**found, **_amount(case, records)}


def _ends(server: Server, topic: str, partitions: int) -> list[int]:
    consumer = open_consumer(server.address)
    places = [TopicPartition(topic, index) for index in range(partitions)]
    ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
    consumer.close()
    return ends


def _reader(server: Server, case: Case, topic: str, mine: Sequence[int], records: int) -> Figures:
    return load(
        f"{case.generator}.consume",
        address=server.address,
        topic=topic,
        partitions=case.partitions,
        record_bytes=case.record_bytes,
        acks=case.acks,
        compression=case.compression,
        records=records,
        mine=list(mine),
    )


def _amount(case: Case, records: int) -> Figures:
    return {"records": records, "bytes": records * case.record_bytes}
