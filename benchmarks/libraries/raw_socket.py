"""No library at all: prepared requests on two plain sockets, answers hardly looked at.

What is left is what every client pays: the broker, the kernel, and Python's way to a socket and back.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from benchmarks.libraries import FETCH_BYTES, Job
from ottla.client import Consumer, TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.fetch_client import (
    FetchPartitionRequest,
    FetchSettings,
    Topic,
    encode_fetch_request,
)
from ottla.protocol.produce_client import encode_produce_request
from ottla.protocol.records.record_encoder import encode_new_batch
from ottla.wire.framing import RequestFramer

_SIZE = struct.Struct(">i")
_PRODUCE_VERSION, _FETCH_VERSION = 9, 12
_MAX_WAIT_MS = 500


class _Line:
    """A socket on which one request is under way at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> bytes:
        got = self._socket.recv(65_536)
        while len(got) < 4 or len(got) < 4 + _SIZE.unpack_from(got)[0]:
            got += self._socket.recv(65_536)
        return got[4:]

    def close(self) -> None:
        self._socket.close()


def _produce_request(job: Job) -> bytes:
    batch = encode_new_batch(
        [(int(time.time() * 1000), None, job.value, ())],
        codec=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        transactional=False,
    )
    body = encode_produce_request(_PRODUCE_VERSION, None, -1, 30_000, {job.topic: [(0, batch)]})
    return _framed(ApiKey.PRODUCE, _PRODUCE_VERSION, b"".join(map(bytes, body)))


def _fetch_request(job: Job, offset: int) -> bytes:
    asked: Any = {Topic(job.topic, None): {0: FetchPartitionRequest(offset, -1, FETCH_BYTES)}}
    settings = FetchSettings(_MAX_WAIT_MS, 1, FETCH_BYTES, 0)
    return _framed(
        ApiKey.FETCH, _FETCH_VERSION, encode_fetch_request(_FETCH_VERSION, settings, (0, -1), asked, {})
    )


def _framed(api: ApiKey, version: int, body: bytes) -> bytes:
    return b"".join(RequestFramer("raw").frame(int(api), version, 0, (body,)))


def latency(job: Job) -> list[float]:
    """Send a record, fetch it; the fetch waits at the broker already when the record comes."""
    partition = TopicPartition(job.topic, 0)
    with Consumer(job.address) as consumer:
        end = consumer.end_offsets([partition])[partition]
    times = []
    produce, fetch = _Line(job.address), _Line(job.address)
    request = _produce_request(job)
    requests = [_fetch_request(job, end + each) for each in range(job.records)]
    job.meter.start()
    for each in requests:
        fetch.send(each)
        began = time.perf_counter()
        produce.send(request)
        reply = fetch.receive()
        times.append(time.perf_counter() - began)
        produce.receive()
        if len(reply) < job.record_bytes:
            raise RuntimeError("the fetch returned without the record")
    job.meter.stop()
    produce.close()
    fetch.close()
    return times
