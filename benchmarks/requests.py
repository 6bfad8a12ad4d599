"""One-record Produce requests on one connection: what a request costs the broker, by depth."""

from __future__ import annotations

import socket
import struct

from benchmarks.measure import Cost, Meter
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.broker_process import BrokerProcess

VERSION = 9


def request(topic: str, value: bytes) -> bytes:
    """Return a Produce v9 frame with one batch of one record, acks=1."""
    batch = bytes(encode_batch([Record(0, 1_700_000_000_000, None, value, ())]))
    header = struct.pack(">hhih", 0, VERSION, 1, 5) + b"bench" + b"\x00"
    name = topic.encode()
    size = _uvarint(len(batch) + 1)
    partition = struct.pack(">i", 0) + size + batch + b"\x00"
    topics = b"\x02" + _uvarint(len(name) + 1) + name + b"\x02" + partition + b"\x00"
    body = b"\x00" + struct.pack(">hi", 1, 30_000) + topics + b"\x00"
    return struct.pack(">i", len(header) + len(body)) + header + body


def error_code(reply: bytes, topic: str) -> int:
    """Return the error code of the partition in a Produce v9 reply (without its length)."""
    at = error_at(topic)
    return int.from_bytes(reply[at : at + 2], signed=True)


def error_at(topic: str) -> int:
    """Return where in a reply the error code is."""
    # correlation id, tags, array length, name with its length, array length, partition
    return 4 + 1 + 1 + len(_uvarint(len(topic) + 1)) + len(topic) + 1 + 4


def run(broker: BrokerProcess, topic: str, depth: int, count: int) -> Cost:
    """Send `count` requests, `depth` of them unanswered at a time."""
    host, port = broker.address.rsplit(":", 1)
    frame = request(topic, b"x" * 200)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = connection.makefile("rb", buffering=1 << 16)
        meter = Meter(broker).start()
        for _ in range(count // depth):
            connection.sendall(frame * depth)
            for _ in range(depth):
                (size,) = struct.unpack(">i", reader.read(4))
                reader.read(size)
        return meter.stop()


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
