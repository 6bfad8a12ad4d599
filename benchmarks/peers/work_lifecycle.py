"""(h) Start-up, idle memory, many partitions, recovery after kill -9: until the first record is accepted."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

from benchmarks.peers import topics
from benchmarks.peers.load import Figures, load, measure
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import READY_WITHIN_S, Server
from benchmarks.requests import error_code, request

FIRST = "first"
PARTITIONS_OF_A_TOPIC = 100
MANY_PARTITIONS = 5_000
BIG_BYTES = 5_000_000_000
SETTLED_AFTER_S = 5.0
RETRY_S = 0.005


def lifecycle(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """Start it, fill it, stop it, kill it; the server is not yet started when it comes."""
    server.start()
    topics.create(server, [FIRST], 1)
    _accepted(server)
    server.stop()
    yield "empty", _start(server)
    if scale.wants("partitions"):
        yield from _many_partitions(server, scale)
    if scale.wants("recovery"):
        yield _recovery(server, scale)


def _start(server: Server) -> Figures:
    began = time.perf_counter()
    server.launch()
    _accepted(server)
    took = time.perf_counter() - began
    cpu_s = server.cpu_seconds()
    time.sleep(SETTLED_AFTER_S)  # memory that the start took is given back, or not
    return {
        "start_s": round(took, 3),
        "server_cpu_s": round(cpu_s, 3),
        "rss_bytes": server.rss_bytes(),
        "descriptors": server.descriptors(),
    }


def _many_partitions(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    count = scale.count(MANY_PARTITIONS)
    names = [f"many-{number}" for number in range(count // PARTITIONS_OF_A_TOPIC)]
    began = time.perf_counter()
    topics.create(server, names, PARTITIONS_OF_A_TOPIC)
    yield f"{count:,} partitions: created", {"start_s": round(time.perf_counter() - began, 3)}
    for name in names:
        _fill(server, name, PARTITIONS_OF_A_TOPIC, 200, 10_000)
    server.stop()
    yield f"{count:,} partitions: clean start", _start(server)
    server.kill()
    yield f"{count:,} partitions: after kill -9", _start(server)


def _recovery(server: Server, scale: Scale) -> tuple[str, Figures]:
    records = scale.count(BIG_BYTES // 1024)
    topics.create(server, ["big"], 12)
    _fill(server, "big", 12, 1024, records)
    server.kill()
    return f"recovery of {records * 1024 / 1e9:.1f} GB after kill -9", _start(server)


def _fill(server: Server, topic: str, partitions: int, record_bytes: int, records: int) -> None:
    options = {"topic": topic, "partitions": partitions, "record_bytes": record_bytes, "records": records}
    measure(
        server,
        [load("librdkafka.produce", address=server.address, acks="1", compression="none", **options)],
    )


def _accepted(server: Server) -> None:
    """Return when a record is accepted; ask again at once for as long as it is not."""
    frame, deadline = request(FIRST, b"first"), time.monotonic() + READY_WITHIN_S
    host, port = server.address.split(",")[0].rsplit(":", 1)
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                while True:
                    connection.sendall(frame)
                    reader = connection.makefile("rb", buffering=0)
                    (size,) = struct.unpack(">i", reader.read(4))
                    if error_code(reader.read(size), FIRST) == 0:
                        return
                    time.sleep(RETRY_S)
        except (OSError, struct.error):
            time.sleep(RETRY_S)
    raise TimeoutError(f"{server.name} accepted no record within {READY_WITHIN_S:g} s")
