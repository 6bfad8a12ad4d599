"""(c) One record per request, and (d) latency from the producer to the consumer at a given rate."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers import topics
from benchmarks.peers.load import Figures, load, measure
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server

CROWDS = {
    (50, 1): 200_000,
    (50, 20): 400_000,
    (1, 1): 60_000,
    (1, 20): 200_000,
    (500, 1): 200_000,
    (500, 20): 400_000,
}
"""Connections and requests of each that are unanswered at a time; how many requests are sent."""
SETTINGS = {"max.connections.per.ip": "1000"}
WARM_REQUESTS = 150_000
WARM_RECORDS = 200_000  # 20 s: Kafka is slower until its JVM has compiled what is hot
RATES = (10_000, 1_000, 50_000)
SECONDS = 20
RECORD_BYTES = 200
PARTITIONS = 6


def requests(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """One-record requests by connections and depth, acks=1."""
    topics.create(server, ["one-record"], 1)
    _requests(server, 50, 20, scale.exact(WARM_REQUESTS))
    for (connections, depth), count in CROWDS.items():
        name = f"{connections} connections, depth {depth}"
        if scale.wants(name):
            yield name, _requests(server, connections, depth, scale.count(count))


def _requests(server: Server, connections: int, depth: int, count: int) -> Figures:
    options = {"address": server.address, "topic": "one-record", "connections": connections, "depth": depth}
    count = max(count, connections * depth)
    found = measure(server, [load("rawrequests.produce", **options, records=count)])
    return {**found, "records": count, "bytes": count * RECORD_BYTES}


def latency(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """Percentiles of the time from produce() to poll()."""
    _latency(server, 10_000, "1", "warm-up", scale.exact(WARM_RECORDS))
    for rate in RATES:
        for acks in ("1", "all"):
            name = f"{rate:,} records/s, acks={acks}"
            if scale.wants(name):
                yield name, _latency(server, rate, acks, f"paced-{rate}-{acks}", scale.count(rate * SECONDS))


def _latency(server: Server, rate: int, acks: str, topic: str, records: int) -> Figures:
    topics.create(server, [topic], PARTITIONS)
    options = {
        "address": server.address,
        "topic": topic,
        "partitions": PARTITIONS,
        "record_bytes": RECORD_BYTES,
        "rate": rate,
        "acks": acks,
        "records": records,
    }
    found = measure(server, [load("latency.send", **options), load("latency.receive", **options)])
    return {**found, "records": records, "bytes": records * RECORD_BYTES}
