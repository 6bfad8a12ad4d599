"""(a) and (b) for the peers that speak other protocols: one stream of theirs, one partition of ours."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers import topics
from benchmarks.peers.load import Figures, Options, load, measure
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server

RECORDS = {200: 500_000, 1024: 200_000}


def one_stream(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """Write a stream with acks, and read it from its beginning."""
    for size, full in RECORDS.items():
        records = scale.count(full) // 1_000 * 1_000
        options: Options = {"address": server.address, "topic": f"stream{size}", "record_bytes": size}
        options |= {"records": records, "partitions": 1, "mine": [0], "acks": "1", "compression": "none"}
        if server.speaks_kafka:
            topics.create(server, [options["topic"]], 1)
        amount = {"records": records, "bytes": records * size}
        for verb in ("produce", "consume"):
            if scale.wants(name := f"{verb} {size} B"):
                yield name, {**measure(server, [load(f"{server.module}.{verb}", **options)]), **amount}
