"""NATS JetStream: one stream on files, published with acks awaited in a window, read by a pull consumer.

JetStream's own defaults: files are written at once and synced every two minutes; Ottla and Kafka leave that
to the kernel.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from benchmarks.payloads import values
from benchmarks.peers.load import Figures, Go, Options
from benchmarks.peers.servers import ChildServer, program
from ottla.testing.broker_process import free_port

WINDOW = 2_000
"""How many records are unacknowledged at most."""
PAGE = 2_500
"""How many records are asked for at a time, two such requests ahead: who is pushed to and reads slowly is cut
off."""


class Nats(ChildServer):
    """A nats-server with JetStream."""

    name = "nats jetstream"
    version = "of Debian"
    speaks_kafka = False
    module = "nats"

    def __init__(self, folder: Path, _settings: dict[str, str]) -> None:
        self._program = program("nats-server")
        super().__init__(folder, free_port())

    def command(self) -> Sequence[str]:
        """Return what to run."""
        where = ["--addr", "127.0.0.1", "--port", str(self.port)]
        return [self._program, *where, "--jetstream", "--store_dir", str(self.folder / "data")]


class _Client:
    """The few verbs of the protocol that a load needs."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = cast(BinaryIO, self.socket.makefile("rb", buffering=1 << 18))
        self.reader.readline()  # INFO
        self.socket.sendall(b'CONNECT {"verbose":false,"headers":false}\r\n')
        for number, kind in enumerate((b"api", b"ack", b"data"), 1):
            self.socket.sendall(b"SUB answers.%s %d\r\n" % (kind, number))

    def request(self, subject: str, body: object) -> dict[str, Any]:
        """Ask the JetStream API for something; raise if it refuses."""
        self.ask(subject, body, b"api")
        answer: dict[str, Any] = json.loads(self.message())
        if "error" in answer:
            raise RuntimeError(f"JetStream refused {subject}: {answer['error']}")
        return answer

    def ask(self, subject: str, body: object, kind: bytes) -> None:
        """Ask for something; the answer is among the messages."""
        data = json.dumps(body).encode()
        self.socket.sendall(b"PUB %s answers.%s %d\r\n%s\r\n" % (subject.encode(), kind, len(data), data))

    def message(self) -> bytes:
        """Return the payload of the next message."""
        while True:
            line = self.reader.readline()
            if line.startswith(b"MSG"):
                size = int(line.rsplit(b" ", 1)[1])
                return self.reader.read(size + 2)[:-2]
            if line.startswith(b"PING"):
                self.socket.sendall(b"PONG\r\n")
            elif line.startswith(b"-ERR") or not line:
                raise RuntimeError(f"NATS: {line!r}")


def produce(options: Options, go: Go) -> Figures:
    """Publish records; half a window more whenever half a window is acknowledged."""
    client, topic = _Client(options["address"]), options["topic"]
    client.request(f"$JS.API.STREAM.CREATE.{topic}", {"name": topic, "subjects": [topic], "storage": "file"})
    half, pool = WINDOW // 2, values(options["record_bytes"])
    head = b"PUB %s answers.ack %d\r\n" % (topic.encode(), options["record_bytes"])
    burst = b"".join(head + pool[number % len(pool)] + b"\r\n" for number in range(half))
    bursts = options["records"] // half
    go()
    client.socket.sendall(burst)
    for number in range(bursts):
        if number + 1 < bursts:
            client.socket.sendall(burst)
        for _ in range(half):
            if b'"seq"' not in client.message():
                raise RuntimeError("JetStream refused a record")
    return {}


def consume(options: Options, go: Go) -> Figures:
    """Read records by a pull consumer that needs no acks."""
    client, topic, left = _Client(options["address"]), options["topic"], options["records"]
    config = {"durable_name": "reader", "deliver_policy": "all", "ack_policy": "none"}
    asked = {"stream_name": topic, "config": config}
    client.request(f"$JS.API.CONSUMER.DURABLE.CREATE.{topic}.reader", asked)
    more = f"$JS.API.CONSUMER.MSG.NEXT.{topic}.reader"
    go()
    client.ask(more, {"batch": PAGE}, b"data")
    while left > 0:
        client.ask(more, {"batch": PAGE}, b"data")
        for _ in range(min(PAGE, left)):
            client.message()
        left -= PAGE
    return {}
