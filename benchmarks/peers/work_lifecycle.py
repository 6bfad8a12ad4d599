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
    yield from _recovery(server, scale)
    yield from _many_partitions(server, scale)


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
    count = scale.exact(MANY_PARTITIONS)
    clean, killed = f"{count:,} partitions: clean start", f"{count:,} partitions: after kill -9"
    if not (scale.wants(clean) or scale.wants(killed)):
        return
    names = [f"many-{number}" for number in range(count // PARTITIONS_OF_A_TOPIC)]
    began = time.perf_counter()
    topics.create(server, names, PARTITIONS_OF_A_TOPIC)
    yield f"{count:,} partitions: created", {"start_s": round(time.perf_counter() - began, 3)}
    _fill(server, names, PARTITIONS_OF_A_TOPIC, 200, 10_000)
    server.stop()
    yield clean, _start(server)
    if scale.wants(killed):
        server.kill()
        yield killed, _start(server)


def _recovery(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    records = scale.exact(BIG_BYTES // 1024)
    if scale.wants(name := f"recovery of {records * 1024 / 1e9:.1f} GB after kill -9"):
        topics.create(server, ["big"], 12)
        _fill(server, ["big"], 12, 1024, records)
        server.kill()
        yield name, _start(server)
        topics.delete(server, "big")


def _fill(server: Server, names: list[str], partitions: int, record_bytes: int, records: int) -> None:
    """Write some records to each of some topics."""
    options = {"topics": names, "partitions": partitions, "record_bytes": record_bytes, "records": records}
    common = {"address": server.address, "acks": "1", "compression": "none"}
    measure(server, [load("librdkafka.fill", **common, **options)])


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
