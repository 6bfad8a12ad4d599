"""Fetch requests over one raw socket that look at no record: how fast a server can send, not a client read.

Fetch v4, one partition after the other, batches walked only by their headers to know the next offset.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from benchmarks.peers.librdkafka import (
    produce as produce,
)  # there is nothing to gain by filling it in another way
from benchmarks.peers.load import Figures, Go, Options

FETCH, VERSION = 1, 4
FETCH_BYTES = 4_000_000
# base offset, length; leader epoch, magic, CRC, attributes; last offset delta
BATCH_HEAD = struct.Struct(">qi11xi")
BATCH_OVERHEAD = 12


def consume(options: Options, go: Go) -> Figures:
    """Read `records` records of the partitions `mine`."""
    host, port = options["address"].split(",")[0].rsplit(":", 1)
    name, offsets, seen = options["topic"].encode(), dict.fromkeys(options["mine"], 0), 0
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = bytearray(2 * FETCH_BYTES)
        go()
        while seen < options["records"]:
            for partition, offset in offsets.items():
                connection.sendall(_request(name, partition, offset))
                records = _records(buffer, _receive(connection, buffer), len(name))
                for base_offset, last_offset in _batches(records):
                    seen += last_offset + 1 - max(base_offset, offset)
                    offset = offsets[partition] = last_offset + 1
    return {}


def _request(name: bytes, partition: int, offset: int) -> bytes:
    header = struct.pack(">hhih", FETCH, VERSION, 1, -1)
    limits = struct.pack(">iiiib", -1, 0, 0, FETCH_BYTES, 0)  # wait for nothing
    place = struct.pack(">iiqi", 1, partition, offset, FETCH_BYTES)
    body = header + limits + struct.pack(">ih", 1, len(name)) + name + place
    return struct.pack(">i", len(body)) + body


def _receive(connection: socket.socket, buffer: bytearray) -> int:
    """Read one reply into the buffer and return its length."""
    view, have, size = memoryview(buffer), 0, 4
    while have < size:
        count = connection.recv_into(view[have:], 4 - have if have < 4 else size - have)
        if count == 0:
            raise RuntimeError("the connection was closed")
        have += count
        if have >= 4 and size == 4:
            size = 4 + int(struct.unpack_from(">i", buffer)[0])
    return size


def _records(buffer: bytearray, size: int, name_bytes: int) -> memoryview:
    # length, correlation id, throttle time, topics, name, partitions
    at = 4 + 4 + 4 + 4 + 2 + name_bytes + 4
    _partition, error, _high_watermark, _stable, aborted = struct.unpack_from(">ihqqi", buffer, at)
    if error:
        raise RuntimeError(f"the server refused a fetch with error {error}")
    at += 26 + max(aborted, 0) * 16 + 4
    return memoryview(buffer)[at:size]


def _batches(records: memoryview) -> Iterator[tuple[int, int]]:
    """Yield the first and the last offset of every complete batch."""
    at = 0
    while at + BATCH_HEAD.size <= len(records):
        base_offset, size, last_delta = BATCH_HEAD.unpack_from(records, at)
        at += BATCH_OVERHEAD + size
        if at <= len(records):
            yield base_offset, base_offset + last_delta
