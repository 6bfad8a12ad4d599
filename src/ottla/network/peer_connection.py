"""One connection to another broker: requests go out, answers come back in the same order.

Answers arrive in a small buffer of the connection; the rest of a large one (a fetch) is received straight
into its own memory. A connection that failed, in whatever way, is never used again: everyone who
waits on it gets the reason, and the next request opens another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import NamedTuple, cast

from ottla.protocol.errors import KafkaError, NetworkException

SCRATCH_BYTES = 32 << 10
MAX_RESPONSE_BYTES = 256 << 20
MIN_RESPONSE_BYTES = 4

_SIZE = Struct(">i")


class PeerAddress(NamedTuple):
    """Where a broker is, and which incarnation of it."""

    host: str
    port: int
    broker_epoch: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class PeerConnection(asyncio.BufferedProtocol):
    """The socket, and who waits for its answers."""

    def __init__(self, address: PeerAddress) -> None:
        self.address = address
        self.failure: KafkaError | None = None
        self._transport: asyncio.Transport | None = None
        self._scratch = bytearray(SCRATCH_BYTES)
        self._kept = 0  # bytes at the start of the scratch buffer that are not a whole frame yet
        self._frame: bytearray | None = None  # a large frame being received
        self._filled = 0
        self._waiting: deque[tuple[int, asyncio.Future[memoryview]]] = deque()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self.failure is None

    @property
    def waiting_count(self) -> int:
        """How many requests are unanswered."""
        return len(self._waiting)

    def send(self, correlation_id: int, frame: bytes) -> asyncio.Future[memoryview]:
        """Send a request; return a future for its answer, which begins with the correlation id."""
        if self.failure is not None:
            raise self.failure
        assert self._transport is not None
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append((correlation_id, answer))
        self._transport.write(frame)
        return answer

    def fail(self, reason: str) -> None:
        """Close the connection; whoever waits is told why."""
        if self.failure is None:
            self.failure = NetworkException(f"{self.address}: {reason}")
        waiting, self._waiting = self._waiting, deque()
        for _, answer in waiting:
            if not answer.done():
                answer.set_exception(self.failure)
                answer.exception()  # nobody may be waiting any more
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the socket."""
        self._transport = cast("asyncio.Transport", transport)
        if self.failure is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        self.fail(str(exc) if exc is not None else "closed by the other side")

    def eof_received(self) -> bool:
        """Close: nothing more will come."""
        return False

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        return memoryview(self._scratch)[self._kept :]

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on the frames that are complete now."""
        if self._frame is None:
            self._split(self._kept + nbytes)
            return
        self._filled += nbytes
        if self._filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._answer(memoryview(frame))

    def _split(self, end: int) -> None:
        at = 0
        while end - at >= 4 and self.failure is None:
            (size,) = _SIZE.unpack_from(self._scratch, at)
            if not MIN_RESPONSE_BYTES <= size <= MAX_RESPONSE_BYTES:
                self.fail(f"it sent a frame of {size} bytes")
                return
            here = end - at - 4
            if here < size:
                if 4 + size > SCRATCH_BYTES:
                    self._frame = bytearray(size)
                    self._frame[:here] = memoryview(self._scratch)[at + 4 : end]
                    self._filled = here
                    at = end
                break
            self._answer(memoryview(bytes(memoryview(self._scratch)[at + 4 : at + 4 + size])))
            at += 4 + size
        self._kept = end - at
        self._scratch[: self._kept] = self._scratch[at:end]

    def _answer(self, frame: memoryview) -> None:
        (correlation_id,) = _SIZE.unpack_from(frame)
        if not self._waiting or self._waiting[0][0] != correlation_id:
            self.fail(f"it answered a request ({correlation_id}) whose turn it was not")
            return
        _, answer = self._waiting.popleft()
        if not answer.done():
            answer.set_result(frame)
