"""`ottla serve -n`: the same load on one, two and three brokers of a machine, all topics with one replica."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers import topics
from benchmarks.peers.load import Figures, load, measure
from benchmarks.peers.ottla import OttlaCluster
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server
from benchmarks.peers.work_requests import RECORD_BYTES as REQUEST_BYTES

SHARES = 6
"""Topics of one partition, by turns on the brokers: as many for one broker as for three."""
CONNECTIONS = 48
REQUESTS = {1: 240_000, 20: 480_000}
RECORDS, PRODUCERS, PARTITIONS = 1_500_000, 2, 12


def scaling(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """One-record requests, and 1 KB records in batches."""
    assert isinstance(server, OttlaCluster)
    brokers = sorted(server.cluster.brokers)
    leaders = {f"share-{number}": brokers[number % len(brokers)] for number in range(SHARES)}
    for name, leader in leaders.items():
        topics.create_on(server, name, leader)
    addresses = {name: server.cluster.brokers[leader].listen for name, leader in leaders.items()}
    for depth, count in REQUESTS.items():
        if scale.wants(name := f"one-record requests, {CONNECTIONS} connections, depth {depth}"):
            yield name, _requests(server, addresses, depth, scale.count(count) // SHARES)
    if scale.wants(name := f"produce 1 KB, {PARTITIONS} partitions, acks=1, librdkafka x{PRODUCERS}"):
        yield name, _batches(server, scale.count(RECORDS) // PRODUCERS)


def _requests(server: Server, addresses: dict[str, str], depth: int, count: int) -> Figures:
    """One generator for each topic, at the broker that leads it."""
    loads = [
        load(
            "rawrequests.produce",
            address=address,
            topic=topic,
            connections=CONNECTIONS // SHARES,
            depth=depth,
            records=count,
        )
        for topic, address in addresses.items()
    ]
    found = measure(server, loads)
    return {**found, "records": count * SHARES, "bytes": count * SHARES * REQUEST_BYTES}


def _batches(server: Server, share: int) -> Figures:
    topics.create(server, ["batches"], PARTITIONS)
    options = {"address": server.address, "topic": "batches", "partitions": PARTITIONS, "record_bytes": 1024}
    each = load("librdkafka.produce", **options, acks="1", compression="none", records=share)
    found = measure(server, [each] * PRODUCERS)
    return {**found, "records": share * PRODUCERS, "bytes": share * PRODUCERS * 1024}
