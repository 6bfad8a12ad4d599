"""Order the responses of one connection, and write them: bytes through the transport, file ranges by
sendfile.

The transport's write limit is 0, so "not blocked" means that everything written so far is in the kernel, and
what follows may be sent directly on the descriptor without overtaking anything. If sendfile finds the socket
full, a first piece of the rest goes through the transport: the transport then reports when the socket accepts
more (uvloop offers no other way for its own sockets). A small reply is gathered: its header and its ranges
are read and sent as one piece. Transports without a plain socket (TLS, simulation) get file ranges as bytes,
piece by piece.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ottla.common.file_range import FileRange
from ottla.network.budget import Budget
from ottla.network.handler import Chunk, Reply
from ottla.network.limits import NetworkStats
from ottla.protocol.errors import KafkaError

MAX_BYTES_PER_ITERATION = 1 << 20  # then other connections are served
COPY_BYTES = 256 << 10  # of a file, at once, over TLS: with 64 KiB a reader costs an eighth more CPU
NUDGE_BYTES = 4 << 10  # written to a full socket, so that the transport reports when it accepts more
GATHER_BYTES = 16 << 10  # up to this size copying is cheaper than a system call per piece
LINGER_S = 1.0

Drained: TypeAlias = Callable[[], None]
Broken: TypeAlias = Callable[[str], None]

Response: TypeAlias = "asyncio.Future[Reply | None]"


class PendingResponses:
    """Holds replies back until every earlier request has its reply."""

    __slots__ = ("_requests", "is_overlapping", "queue")

    def __init__(self, requests: Budget) -> None:
        self.queue: deque[Response | Reply] = deque()  # never starts with a reply
        self.is_overlapping = False  # all in queue are, or there is only one
        self._requests = requests

    def add(self, response: Response, overlaps: bool) -> None:
        """Add a request; overlapping ones count against the broker's budget."""
        self.is_overlapping = overlaps
        if overlaps:
            self._requests.take(1)
        self.queue.append(response)

    def blocks_next(self, overlaps: bool, limit: int) -> bool:
        """Return whether the next request has to wait for the pending ones."""
        return bool(self.queue) and not (overlaps and self.is_overlapping and len(self.queue) < limit)

    def pop_completed(self) -> tuple[list[Reply], BaseException | None]:
        """Remove completed responses from the front; return the replies before the first failure, and that
        failure.
        """
        replies: list[Reply] = []
        failure: BaseException | None = None
        while self.queue:
            reply: Response | Reply | None = self.queue[0]
            if isinstance(reply, asyncio.Future):
                if not reply.done():
                    break
                if self.is_overlapping:
                    self._requests.release(1)
                error = asyncio.CancelledError() if reply.cancelled() else reply.exception()
                failure = failure or error
                reply = None if error else reply.result()
            self.queue.popleft()
            if reply is not None and failure is None:
                replies.append(reply)
        return replies, failure

    def cancel(self) -> None:
        """Cancel the requests that are still running."""
        for answer in self.queue:
            if isinstance(answer, asyncio.Future):
                answer.cancel()


class ReplyWriter:
    """Sends replies in order, and reports when all of them are in the kernel."""

    __slots__ = (
        "_blocked",
        "_on_broken",
        "_on_drained",
        "_pending",
        "_socket",
        "_stats",
        "_transport",
        "accepted",
        "busy",
    )

    def __init__(
        self, transport: asyncio.Transport, stats: NetworkStats, on_drained: Drained, on_broken: Broken
    ) -> None:
        self.busy = False  # something waits for the peer to read, or for the next loop iteration
        self.accepted = 0  # bytes of chunked replies that were written; shows progress
        self._transport = transport
        self._stats = stats
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._blocked = False
        self._pending: deque[Chunk] | None = None  # created when first needed; most connections never do
        self._socket: socket.socket | None = None

    def start(self) -> None:
        """Have the transport report at once when the socket is full: it may do so during this call.

        With TLS the limit is one byte: at 0, an empty buffer would count as full, and writing would be paused
        forever.
        """
        if self._transport.get_extra_info("sslcontext") is None:
            self._transport.set_write_buffer_limits(high=0)
        else:
            self._transport.set_write_buffer_limits(high=1, low=0)

    def send(self, replies: Sequence[Reply]) -> None:
        """Send replies; those that are plain bytes are joined into one piece."""
        if not self.busy:
            data = replies[0] if len(replies) == 1 else _joined(replies)
            if type(data) is bytes:
                self._transport.write(data)
                self._stats.bytes_out += len(data)
                return
        if self._pending is None:
            self._pending = deque()
        for reply in replies:
            if isinstance(reply, bytes):
                self._pending.append(reply)
            else:
                self._pending.extend(reply)
        if not self.busy:
            self.busy = True
            self._pump()  # the caller checks `busy` itself

    @property
    def backlog(self) -> int:
        """Return the number of bytes that the transport buffers because the peer does not read."""
        return self._transport.get_write_buffer_size() if self._blocked else 0

    def pause(self) -> None:
        """Handle a full socket."""
        self._blocked = self.busy = True

    def resume(self) -> None:
        """Continue: the socket has accepted everything that the transport had buffered."""
        self._blocked = False
        self._pump_and_notify()

    def close_gracefully(self, linger: bool) -> None:
        """Close after everything was sent; with `linger`, give the peer time to close first."""
        if not linger or not self._transport.can_write_eof():
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:  # the peer has reset the connection already
            self._transport.abort()
            return
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def close(self) -> None:
        """Drop unsent replies; the transport is about to close the descriptor."""
        self._pending = None
        self.busy = True
        if self._socket is not None:
            self._socket.detach()
            self._socket = None

    def _pump(self) -> None:
        pending = self._pending
        turn = MAX_BYTES_PER_ITERATION
        try:
            while pending and not self._blocked:
                if turn <= 0:
                    asyncio.get_running_loop().call_soon(self._pump_and_notify)
                    return
                turn -= self._send_first(pending)
        except ConnectionError:
            self._transport.abort()  # the peer has disconnected
        except (OSError, EOFError, KafkaError) as error:
            self._on_broken(f"closed: cannot read the log file being sent: {error}")
        else:
            self.busy = self._blocked

    def _pump_and_notify(self) -> None:
        self._pump()
        if not self.busy:
            self._on_drained()

    def _send_first(self, pending: deque[Chunk]) -> int:
        """Send the first chunk or a part of it; return the number of bytes."""
        chunk = pending.popleft()
        if isinstance(chunk, FileRange):
            sent = self._send_range(chunk) if chunk.size > 0 else 0
            if sent < chunk.size:
                pending.appendleft(FileRange(chunk.file, chunk.position + sent, chunk.size - sent))
        else:
            if pending:
                chunk = _gathered(chunk, pending)
            sent = len(chunk)
            if pending and isinstance(pending[0], FileRange) and pending[0].size > 0:
                chunk = self._send_head(chunk)
            self._transport.write(chunk)
        self.accepted += sent
        self._stats.bytes_out += sent
        return sent

    def _send_head(self, chunk: bytes | memoryview) -> bytes | memoryview:
        """Send the bytes before a file range so that both share packets; return what did not fit."""
        direct = self._raw_socket()
        if direct is None:
            return chunk
        try:
            sent = direct.send(chunk, socket.MSG_MORE)
        except BlockingIOError:
            return chunk
        return chunk[sent:]

    def _send_range(self, chunk: FileRange) -> int:
        sent = 0
        piece = COPY_BYTES
        source = chunk.file.fileno()
        direct = self._raw_socket() if source >= 0 else None
        if direct is not None:
            wanted = min(chunk.size, MAX_BYTES_PER_ITERATION)
            try:
                sent = os.sendfile(direct.fileno(), source, chunk.position, wanted)
            except BlockingIOError:
                pass
            if sent == wanted:
                return sent
            piece = NUDGE_BYTES
        data = chunk.file.read_at(chunk.position + sent, min(chunk.size - sent, piece))
        if not data:
            raise EOFError(f"the file ends at {chunk.position + sent}, {chunk.size - sent} bytes too early")
        self._transport.write(data)
        return sent + len(data)

    def _raw_socket(self) -> socket.socket | None:
        """Return the plain socket under the transport if it may be written to directly now."""
        if self._socket is None:
            below = self._transport.get_extra_info("socket")
            if below is None or self._transport.get_extra_info("sslcontext") is not None:
                return None
            # A second socket object for the descriptor, which the transport still owns: see `close`.
            self._socket = socket.socket(below.family, below.type, below.proto, fileno=below.fileno())
            self._socket.setblocking(False)
        return self._socket if self._transport.get_write_buffer_size() == 0 else None


def _joined(replies: Sequence[Reply]) -> bytes | None:
    """Return the replies as one piece, or None if some are not plain bytes."""
    parts = [reply for reply in replies if isinstance(reply, bytes)]
    return b"".join(parts) if len(parts) == len(replies) else None


def _gathered(first: bytes | memoryview, pending: deque[Chunk]) -> bytes | memoryview:
    """Return `first` and what follows it in `pending`, up to GATHER_BYTES.

    If a file has become shorter, its missing part stays pending: sending it raises the error.
    """
    parts = [first]
    size = len(first)
    while pending:
        chunk = pending[0]
        if isinstance(chunk, FileRange):
            if size + chunk.size > GATHER_BYTES:
                break
            data: bytes | memoryview = chunk.read()
            if len(data) < chunk.size:
                pending[0] = FileRange(chunk.file, chunk.position + len(data), chunk.size - len(data))
                parts.append(data)
                break
        else:
            if size + len(chunk) > GATHER_BYTES:
                break
            data = chunk
        pending.popleft()
        parts.append(data)
        size += len(data)
    return b"".join(parts) if len(parts) > 1 else first
