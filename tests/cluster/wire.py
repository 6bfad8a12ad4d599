"""A client of a few bytes: sends exactly what a test says, right or wrong, and waits for nothing by itself.

All requests are of versions before the flexible ones, whose layout is plain:

    frame     size int32, api_key int16, api_version int16, correlation_id int32, client_id string, body
    Produce v7   transactional_id, acks int16, timeout_ms int32, [topic, [partition int32, batch bytes]]
    Fetch v4     replica -1, max_wait int32, min_bytes int32, max_bytes int32, isolation int8,
                 [topic, [partition int32, offset int64, max_bytes int32]]
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from struct import Struct, pack, unpack_from
from types import TracebackType
from typing import NamedTuple, Self

from ottla.protocol.records.records import Record, encode_batch

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
CLIENT_ID = b"wire"
_SIZE = Struct(">i")
_PRODUCE_RESULT = Struct(">ihqqq")


class Produced(NamedTuple):
    """What a produce request was answered with."""

    error_code: int
    base_offset: int


class WirePeer:
    """One TCP connection to a broker."""

    def __init__(self, address: str, *, timeout_s: float = 30.0, receive_buffer: int | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        self.socket.connect((host, int(port)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        """Return the next reply without its size; EOFError when the broker has closed the connection."""
        (size,) = _SIZE.unpack(self._receive(4))
        return self._receive(size)

    def is_closed_by_broker(self) -> bool:
        """Wait for the broker to close, and throw away whatever comes before that."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def produce(self, topic: str, partition: int, batch: bytes, *, acks: int = -1) -> Produced:
        """Send one batch and return the answer."""
        self.send(produce_frame(topic, partition, batch, acks=acks))
        return self.produced(topic)

    def produced(self, topic: str) -> Produced:
        """Return the answer to a produce request of one batch."""
        reply = self.receive_frame()
        _, code, base_offset, _, _ = _PRODUCE_RESULT.unpack_from(reply, 4 + 4 + 2 + len(topic) + 4)
        return Produced(code, base_offset)

    def fetch_error(self, topic: str, partition: int, offset: int) -> int:
        """Return the error code of a fetch that does not wait."""
        self.send(fetch_frame(topic, partition, offset, max_wait_ms=0))
        (code,) = unpack_from(">h", self.receive_frame(), 4 + 4 + 4 + 2 + len(topic) + 4 + 4)
        return int(code)

    def _receive(self, size: int) -> bytes:
        parts = []
        while size:
            part = self.socket.recv(size)
            if not part:
                raise EOFError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    """Return a whole request."""
    head = pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return _SIZE.pack(len(head) + len(body)) + head + body


def produce_frame(topic: str, partition: int, batch: bytes, *, acks: int = -1) -> bytes:
    """Return a Produce request of one batch."""
    to = pack(">ih", 1, len(topic)) + topic.encode() + pack(">iii", 1, partition, len(batch))
    return frame(PRODUCE, 7, pack(">hhi", -1, acks, 30_000) + to + batch)


def fetch_frame(
    topic: str, partition: int, offset: int, *, max_wait_ms: int, max_bytes: int = 1 << 20, min_bytes: int = 1
) -> bytes:
    """Return a Fetch request of one partition."""
    what = pack(">ih", 1, len(topic)) + topic.encode() + pack(">iiqi", 1, partition, offset, max_bytes)
    return frame(FETCH, 4, pack(">iiiib", -1, max_wait_ms, min_bytes, max_bytes, 0) + what)


def metadata_frame(correlation_id: int = 1) -> bytes:
    """Return a Metadata request for all topics."""
    return frame(METADATA, 1, pack(">i", -1), correlation_id)


def batch_of(
    values: Sequence[bytes],
    *,
    timestamps: Sequence[int] | None = None,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Return a batch as an idempotent producer would send it, or a plain one; by default of now."""
    times = timestamps or [time.time_ns() // 1_000_000] * len(values)
    timed = enumerate(zip(times, values, strict=True))
    return bytes(
        encode_batch(
            [Record(index, at, None, value, ()) for index, (at, value) in timed],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=base_sequence,
        )
    )
