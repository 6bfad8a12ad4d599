"""(a) and (b) for the peers that speak other protocols: one stream of theirs, one partition of ours."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers import topics
from benchmarks.peers.load import Figures, Options, load, measure
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server

RECORDS = {200: 2_000_000, 1024: 600_000}
WARM_RECORDS = 300_000


def one_stream(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """Write a stream with acks, and read it from its beginning."""
    for _ in _stream(server, 200, "warm", scale.exact(WARM_RECORDS)):
        pass  # uncounted
    for size, full in RECORDS.items():
        for verb, figures in _stream(server, size, f"stream{size}", scale.count(full)):
            yield f"{verb} {size} B", figures


def _stream(server: Server, size: int, name: str, count: int) -> Iterator[tuple[str, Figures]]:
    records = count // 1_000 * 1_000
    options: Options = {"address": server.address, "topic": name, "record_bytes": size}
    options |= {"records": records, "partitions": 1, "mine": [0], "acks": "1", "compression": "none"}
    if server.speaks_kafka:
        topics.create(server, [name], 1)
    for verb in ("produce", "consume"):
        found = measure(server, [load(f"{server.module}.{verb}", **options)])
        yield verb, {**found, "records": records, "bytes": records * size}
