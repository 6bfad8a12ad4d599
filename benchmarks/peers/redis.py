"""Redis Streams: one stream, XADD pipelined, XREAD in pages; the append-only file on, with its default fsync.

Redis keeps the stream in memory; with `appendonly yes` it also writes a log and syncs that every second: the
nearest that it has to what Ottla and Kafka do. All else is its default.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from benchmarks.payloads import values
from benchmarks.peers.load import Figures, Go, Options
from benchmarks.peers.servers import ChildServer, program
from ottla.testing.broker_process import free_port

PIPELINE = 1_000
PAGE = 5_000


class Redis(ChildServer):
    """A redis-server."""

    name = "redis streams"
    version = "of Debian"
    speaks_kafka = False
    module = "redis"

    def __init__(self, folder: Path, _settings: dict[str, str]) -> None:
        self._program = program("redis-server")
        super().__init__(folder, free_port())

    def command(self) -> Sequence[str]:
        """Return what to run."""
        return [self._program, "--port", str(self.port), "--appendonly", "yes", "--dir", str(self.folder)]


def _connect(address: str) -> tuple[socket.socket, BinaryIO]:
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, cast(BinaryIO, connection.makefile("rb", buffering=1 << 18))


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def produce(options: Options, go: Go) -> Figures:
    """Add records, a pipeline of them unanswered at a time."""
    connection, reader = _connect(options["address"])
    topic, pool = options["topic"].encode(), values(options["record_bytes"])
    frames = [_command(b"XADD", topic, b"*", b"v", value) for value in pool]
    pipeline = b"".join(frames[number % len(frames)] for number in range(PIPELINE))
    go()
    for _ in range(options["records"] // PIPELINE):
        connection.sendall(pipeline)
        for _ in range(PIPELINE):
            if not reader.readline().startswith(b"$"):
                raise RuntimeError("Redis refused a record")
            reader.readline()
    return {}


def consume(options: Options, go: Go) -> Figures:
    """Read records from the beginning, page by page."""
    connection, reader = _connect(options["address"])
    topic, last, seen = options["topic"].encode(), b"0", 0
    go()
    while seen < options["records"]:
        connection.sendall(_command(b"XREAD", b"COUNT", b"%d" % PAGE, b"STREAMS", topic, last))
        for _ in range(4):  # one stream: its name and its entries
            reader.readline()
        entries = int(reader.readline()[1:])
        for _ in range(entries):  # *2, id ($n, id), *2, field ($1, v), value ($n, value)
            reader.readline()
            reader.readline()
            last = reader.readline()[:-2]
            for _ in range(3):
                reader.readline()
            reader.read(int(reader.readline()[1:]) + 2)
        seen += entries
    return {}
