"""RabbitMQ streams: one stream over its own binary protocol (the plugin rabbitmq_stream), confirms awaited.

Frames are `size:u32 key:u16 version:u16 [correlation:u32] body`; strings have a length of 16 bits, bytes one
of 32. A stream is written to files and not synced before a confirm, as with Ottla and Kafka.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from benchmarks.payloads import values
from benchmarks.peers.load import Figures, Go, Options
from benchmarks.peers.servers import ChildServer, program
from ottla.common.processes import die_with_parent
from ottla.testing.broker_process import free_port

BATCH = 100
WINDOW = 20
"""How many batches are unconfirmed at most."""
CREDIT = 50
DECLARE_PUBLISHER, PUBLISH, CONFIRM, PUBLISH_ERROR = 1, 2, 3, 4
SUBSCRIBE, DELIVER, MORE, CREATE = 7, 8, 9, 13
PROPERTIES, HANDSHAKE, AUTHENTICATE, TUNE, OPEN, HEARTBEAT = 17, 18, 19, 20, 21, 23
RESPONSE, OK, EXISTS = 0x8000, 1, 5


class RabbitMQ(ChildServer):
    """A RabbitMQ node with the stream plugin."""

    name = "rabbitmq streams"
    version = "of Debian"
    speaks_kafka = False
    module = "rabbitmq"

    def __init__(self, folder: Path, _settings: dict[str, str]) -> None:
        program("rabbitmq-server")
        self._program = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        super().__init__(folder, free_port())
        self._amqp_port, self._node_port, self._names_port = free_port(), free_port(), free_port()
        self._names: subprocess.Popen[bytes] | None = None
        (folder / "plugins").write_text("[rabbitmq_stream].\n")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self._amqp_port}\n"
            f"stream.listeners.tcp.default = 127.0.0.1:{self.port}\n"
        )

    def command(self) -> Sequence[str]:
        """Return what to run."""
        return [str(self._program)]

    def environment(self) -> dict[str, str]:
        """Return where everything is: nothing outside of the folder."""
        return {
            **os.environ,
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self._amqp_port),
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
        }

    def launch(self) -> None:
        """Start Erlang's name server, else RabbitMQ starts one that outlives it; then RabbitMQ."""
        names = [program("epmd"), "-port", str(self._names_port), "-address", "127.0.0.1"]
        self._names = subprocess.Popen(
            names,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        super().launch()

    def kill(self) -> None:
        """End both."""
        super().kill()
        if self._names is not None:
            self._names.kill()
            self._names.wait()
            self._names = None


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class _Client:
    """A connection that has logged in."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = cast(BinaryIO, self.socket.makefile("rb", buffering=1 << 18))
        self.ask(PROPERTIES, struct.pack(">i", 0))
        self.ask(HANDSHAKE, b"")
        secret = b"\0guest\0guest"
        self.ask(AUTHENTICATE, _text("PLAIN") + struct.pack(">i", len(secret)) + secret)
        key, tune = self.frame()
        while key != TUNE:
            key, tune = self.frame()
        self.send(TUNE, tune[:4] + struct.pack(">i", 0))  # no heartbeats
        self.ask(OPEN, _text("/"))

    def send(self, key: int, body: bytes) -> None:
        """Send a frame."""
        self.socket.sendall(struct.pack(">IHH", len(body) + 4, key, 1) + body)

    def ask(self, key: int, body: bytes) -> None:
        """Send a request and wait for its answer; raise if it is refused."""
        self.send(key, struct.pack(">I", 1) + body)
        while True:
            answered, answer = self.frame()
            if answered == key | RESPONSE:
                (code,) = struct.unpack_from(">H", answer, 4)
                if code not in (OK, EXISTS):
                    raise RuntimeError(f"RabbitMQ refused request {key} with code {code}")
                return

    def frame(self) -> tuple[int, bytes]:
        """Return the key and the body of the next frame."""
        size, key, _version = struct.unpack(">IHH", self.reader.read(8))
        return key, self.reader.read(size - 4)


def produce(options: Options, go: Go) -> Figures:
    """Publish records in frames of many, and wait for all confirms."""
    client, topic = _Client(options["address"]), options["topic"]
    client.ask(CREATE, _text(topic) + struct.pack(">i", 0))
    client.ask(DECLARE_PUBLISHER, b"\0" + _text("") + _text(topic))
    pool, batches = values(options["record_bytes"]), options["records"] // BATCH
    messages = [struct.pack(">I", len(value)) + value for value in pool]
    sent = confirmed = 0
    go()
    while confirmed < batches * BATCH:
        while sent < batches and sent * BATCH - confirmed < WINDOW * BATCH:
            ids = range(sent * BATCH, (sent + 1) * BATCH)
            entries = b"".join(struct.pack(">Q", number) + messages[number % len(messages)] for number in ids)
            client.send(PUBLISH, struct.pack(">BI", 0, BATCH) + entries)
            sent += 1
        key, body = client.frame()
        if key == CONFIRM:
            confirmed += struct.unpack_from(">I", body, 1)[0]
        elif key == PUBLISH_ERROR:
            raise RuntimeError("RabbitMQ refused a record")
    return {}


def consume(options: Options, go: Go) -> Figures:
    """Read the stream from its first chunk."""
    client, topic, seen = _Client(options["address"]), options["topic"], 0
    go()
    # Subscription 0, offset type 1 (first), so many chunks at once, no properties.
    client.ask(SUBSCRIBE, b"\0" + _text(topic) + struct.pack(">HHi", 1, CREDIT, 0))
    while seen < options["records"]:
        key, body = client.frame()
        if key == DELIVER:
            seen += struct.unpack_from(">I", body, 1 + 4)[0]  # subscription; magic, type, entries, records
            client.send(MORE, struct.pack(">BH", 0, 1))
    return {}
