"""Replies to one socket: bytes through the transport, file ranges by sendfile beside it.

The transport's write limit is set to 0, so "not blocked" means that everything handed to it is in
the kernel, and what follows may go straight to the descriptor without overtaking anything. When
sendfile finds the socket full, a first piece of what is left goes through the transport: it is the
transport that learns when the socket takes more (uvloop offers no other way on a socket of its own).
A small reply is gathered: its head and its ranges are read and leave in one piece.
Transports without a plain socket (TLS, simulation) get file ranges piece by piece as bytes.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ottla.common.file_range import FileRange
from ottla.network.handler import Chunk, Reply
from ottla.network.limits import NetworkStats
from ottla.protocol.errors import KafkaError

TURN_BYTES = 1 << 20  # then the other connections have their turn
COPY_BYTES = 64 << 10
NUDGE_BYTES = 4 << 10  # of a range for a full socket: enough for the transport to tell when it takes more
GATHER_BYTES = 16 << 10  # up to here copying costs less than a system call for each piece
LINGER_S = 1.0

Drained: TypeAlias = Callable[[], None]
Broken: TypeAlias = Callable[[str], None]


class ReplyWriter:
    """Sends replies in the order given, and says when all of them are in the kernel."""

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
        self.busy = False  # something waits for the peer to read, or for our next turn
        self.accepted = 0  # bytes of chunked replies that left this object; shows progress
        self._transport = transport
        self._stats = stats
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._blocked = False
        self._pending: deque[Chunk] | None = None  # made when first needed: most connections never do
        self._socket: socket.socket | None = None
        transport.set_write_buffer_limits(high=0)

    def send(self, replies: Sequence[Reply]) -> None:
        """Send replies, those that are plain bytes in one piece."""
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
            self._pump()  # whoever sends sees for himself whether it is done

    @property
    def backlog(self) -> int:
        """Bytes that the transport holds because the peer does not read."""
        return self._transport.get_write_buffer_size() if self._blocked else 0

    def pause(self) -> None:
        """Take note that the socket is full."""
        self._blocked = self.busy = True

    def resume(self) -> None:
        """Go on: the socket has taken everything that the transport held."""
        self._blocked = False
        self._pump_and_tell()

    def end(self, linger: bool) -> None:
        """Close, everything being sent; with `linger`, only after the peer had time to close first."""
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
        """Drop what is unsent; the transport is about to close the descriptor."""
        self._pending = None
        self.busy = True
        if self._socket is not None:
            self._socket.detach()
            self._socket = None

    def _pump(self) -> None:
        pending = self._pending
        turn = TURN_BYTES
        try:
            while pending and not self._blocked:
                if turn <= 0:
                    asyncio.get_running_loop().call_soon(self._pump_and_tell)
                    return
                turn -= self._send_first(pending)
        except ConnectionError:
            self._transport.abort()  # nothing unusual: the peer is gone
        except (OSError, EOFError, KafkaError) as error:
            self._on_broken(f"the file being sent cannot be read: {error}")
        else:
            self.busy = self._blocked

    def _pump_and_tell(self) -> None:
        self._pump()
        if not self.busy:
            self._on_drained()

    def _send_first(self, pending: deque[Chunk]) -> int:
        """Send the first chunk or a part of it; return how many bytes that was."""
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
        """Send what precedes a file range so that both share packets; return what did not fit."""
        direct = self._direct()
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
        direct = self._direct() if source >= 0 else None
        if direct is not None:
            wanted = min(chunk.size, TURN_BYTES)
            try:
                sent = os.sendfile(direct.fileno(), source, chunk.position, wanted)
            except BlockingIOError:
                pass
            if sent == wanted:
                return sent
            piece = NUDGE_BYTES
        data = chunk.file.read_at(chunk.position + sent, min(chunk.size - sent, piece))
        if not data:
            raise EOFError(f"it ends at {chunk.position + sent}, {chunk.size - sent} bytes too early")
        self._transport.write(data)
        return sent + len(data)

    def _direct(self) -> socket.socket | None:
        """Return the plain socket under the transport if it may be written to directly now."""
        if self._socket is None:
            below = self._transport.get_extra_info("socket")
            if below is None or self._transport.get_extra_info("sslcontext") is not None:
                return None
            # A second object for the transport's descriptor, which stays the transport's: see close.
            self._socket = socket.socket(below.family, below.type, below.proto, fileno=below.fileno())
            self._socket.setblocking(False)
        return self._socket if self._transport.get_write_buffer_size() == 0 else None


def _joined(replies: Sequence[Reply]) -> bytes | None:
    """Return the replies as one piece, or None if some are not plain bytes."""
    parts = [reply for reply in replies if isinstance(reply, bytes)]
    return b"".join(parts) if len(parts) == len(replies) else None


def _gathered(first: bytes | memoryview, pending: deque[Chunk]) -> bytes | memoryview:
    """Return `first` and what follows it in `pending`, as far as that stays small.

    Of a file that became shorter meanwhile the missing part stays pending: sending it says what is wrong.
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
