"""One-record Produce requests over raw sockets: many connections, several requests of each unanswered.

All replies of a topic have the same length, so a reply is counted, and its error code looked at, without
being decoded: the generator costs less than the broker.
"""

from __future__ import annotations

import select
import socket
import struct

from benchmarks.peers.load import Figures, Go, Options
from benchmarks.requests import error_at, error_code, request

RECORD_BYTES = 200


def produce(options: Options, go: Go) -> Figures:
    """Send `records` requests over `connections`, `depth` of each unanswered at a time."""
    topic, depth = options["topic"], options["depth"]
    host, port = options["address"].split(",")[0].rsplit(":", 1)
    frame = request(topic, b"x" * RECORD_BYTES)
    sockets = [_Pipe(host, int(port)) for _ in range(options["connections"])]
    for pipe in sockets:
        pipe.check(frame, topic)
    crowd = select.epoll()
    by_number = {pipe.socket.fileno(): pipe for pipe in sockets}
    for number in by_number:
        crowd.register(number, select.EPOLLIN)
    unsent = max(options["records"], len(sockets) * depth)
    unanswered, size, failed_at = unsent, sockets[0].reply_bytes, error_at(topic) + 4
    go()
    for pipe in sockets:
        pipe.socket.sendall(frame * depth)
    unsent -= len(sockets) * depth
    while unanswered > 0:
        for number, _ in crowd.poll(30):
            pipe = by_number[number]
            answered = pipe.receive(size, failed_at)
            unanswered -= answered
            if answered and unsent > 0:
                answered = min(answered, unsent)
                pipe.socket.sendall(frame * answered)
                unsent -= answered
    return {}


class _Pipe:
    """One connection."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reply_bytes = 0
        self._rest = b""

    def check(self, frame: bytes, topic: str) -> None:
        """Do one request with care: is it taken, and how long are replies?"""
        self.socket.sendall(frame)
        reader = self.socket.makefile("rb", buffering=0)
        (size,) = struct.unpack(">i", reader.read(4))
        if code := error_code(reader.read(size), topic):
            raise RuntimeError(f"the first request was refused with error {code}")
        self.reply_bytes = size + 4

    def receive(self, size: int, failed_at: int) -> int:
        """Read what has come and return how many replies that completes."""
        data = self._rest + self.socket.recv(1 << 18)
        complete = len(data) // size
        self._rest = data[complete * size :]
        end = complete * size
        if any(data[failed_at:end:size]) or any(data[failed_at + 1 : end : size]):
            raise RuntimeError("a request was refused")
        return complete
