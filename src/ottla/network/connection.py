"""One client's connection: requests to the handler in order, replies back in the same order.

Requests are dispatched one at a time, except that overlapping kinds (Produce) may run side by
side. A request that has to wait stays in the bytes kept aside, and the socket is left unread until
it had its turn: that is all the queueing there is. What it may wait for: earlier requests, a peer
that does not read its replies, the broker's budgets, the other connections' turn, or a handler that
holds the connection because it cannot keep up. A handler that answers at once costs neither a task
nor a future.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeAlias, cast

from ottla.network.budget import Budget, LargeFrame
from ottla.network.frame_reader import (
    HEAD,
    HEAD_BYTES,
    MIN_FRAME_BYTES,
    NOTHING,
    SIZE_BYTES,
    SMALL_FRAME_BYTES,
    FrameReader,
)
from ottla.network.handler import Reply
from ottla.network.reply_writer import ReplyWriter
from ottla.protocol.errors import KafkaError

# The requests of one connection that are not answered yet, in the order they came.

Answer: TypeAlias = "asyncio.Future[Reply | None]"


class PendingResponses:
    """Keeps replies back until every earlier request has its own."""

    __slots__ = ("_requests", "is_overlapping", "line")

    def __init__(self, requests: Budget) -> None:
        self.line: deque[Answer | Reply] = deque()  # never starts with a reply
        self.is_overlapping = False  # all in line are, or there is only one
        self._requests = requests

    def add(self, answer: Answer, overlaps: bool) -> None:
        """Put a request in line; overlapping ones count against the broker's budget."""
        self.is_overlapping = overlaps
        if overlaps:
            self._requests.take(1)
        self.line.append(answer)

    def holds_back(self, overlaps: bool, limit: int) -> bool:
        """Return whether the next request has to wait for those in line."""
        return bool(self.line) and not (overlaps and self.is_overlapping and len(self.line) < limit)

    def take_answered(self) -> tuple[list[Reply], BaseException | None]:
        """Take from the front what is answered: the replies up to the first failure, and that failure."""
        replies: list[Reply] = []
        failure: BaseException | None = None
        while self.line:
            reply: Answer | Reply | None = self.line[0]
            if isinstance(reply, asyncio.Future):
                if not reply.done():
                    break
                if self.is_overlapping:
                    self._requests.release(1)
                error = asyncio.CancelledError() if reply.cancelled() else reply.exception()
                failure = failure or error
                reply = None if error else reply.result()
            self.line.popleft()
            if reply is not None and failure is None:
                replies.append(reply)
        return replies, failure

    def cancel(self) -> None:
        """Cancel what still runs."""
        for answer in self.line:
            if isinstance(answer, asyncio.Future):
                answer.cancel()


# How long a peer has shown no sign of life; costs nothing between sweeps.


class IdleTracker:
    """Compares a number that moves when the peer does something with what it was at the last sweep."""

    __slots__ = ("_mark", "_since_ms")

    def __init__(self, now_ms: int) -> None:
        self._mark = 0
        self._since_ms = now_ms

    def quiet_ms(self, mark: int, now_ms: int, is_excused: bool) -> int:
        """Return for how long `mark` has stood still, not counting times when the peer was excused."""
        if mark != self._mark or is_excused:
            self._mark, self._since_ms = mark, now_ms
        return now_ms - self._since_ms

    def is_quiet(self, mark: int) -> bool:
        """Return whether nothing has happened since the last sweep."""
        return mark == self._mark


if TYPE_CHECKING:
    from ottla.network.server import Server

TURN_REQUESTS = 32
HEAD_START_BYTES = 64 << 10  # of a large frame, before it gets its memory when that is getting scarce
COALESCE_BYTES = 64 << 10  # of replies, before they are written


class Connection(FrameReader):
    """A connection; handlers use what `Peer` in api/support/context.py says, `is_closing` and `close`."""

    __slots__ = (
        "_handler",
        "_holds",
        "_is_open",
        "_patience",
        "_paused",
        "_requests",
        "_server",
        "_transport",
        "_writer",
        "has_fetched",
        "host",
        "is_client",
        "is_closing",
        "is_unproven",
        "listener_name",
        "peer",
        "software",
        "unanswered",
    )

    _transport: asyncio.Transport
    _writer: ReplyWriter

    def __init__(self, server: Server, listener_name: str) -> None:
        super().__init__(server.scratch, server.frame_bytes, server.stats)
        self.listener_name = listener_name
        self.host = self.peer = ""  # the address; the address and the port, for log lines
        self.software = ""  # what the client calls itself, when the handler was told
        self.has_fetched = False  # noted by the handler
        self.is_closing = False
        self.is_client = self.is_unproven = False  # noted by the table of connections
        self._is_open = False
        self._server = server
        self._handler = server.handler
        self._requests = server.requests
        self._paused = False  # a request waits in _leftover, and the socket is left unread
        self._holds = 0  # handlers of unanswered requests that want no more of them now
        self.unanswered = PendingResponses(server.requests)
        self._patience = IdleTracker(server.clock.mono_ms())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to serve, unless there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername") or ("unknown", 0)
        self.host = address[0]
        self.peer = f"{address[0]}:{address[1]}"
        self._writer = ReplyWriter(self._transport, self._stats, self._proceed, self.abort)
        self._is_open = self._server.admit(self)
        if self._is_open:
            self._handler.connection_made(self)
        else:
            self.is_closing = True
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything but the requests that still run."""
        self._writer.close()
        del self._writer, self._transport  # they know us, too: leave no cycle to the collector
        if not self._is_open:
            return
        self._is_open, self.is_closing = False, True
        self._drop_input()
        self._requests.forget(self._proceed)
        self._frame_bytes.forget(self._proceed)
        self._handler.connection_lost(self)
        self._finish()

    def pause_writing(self) -> None:
        """Take note that the peer does not read."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Take note that the peer has read everything."""
        self._writer.resume()

    @property
    def is_held_up(self) -> bool:
        """Return whether a request waits here for the answer to an earlier one."""
        return self._paused and bool(self.unanswered.line)

    # Requests in, replies out

    def _dispatch(self, buffer: bytearray, end: int) -> None:
        """Give the complete frames of `buffer[:end]` to the handler, as far as they need not wait."""
        at = 0
        replies: list[Reply] = []
        room = COALESCE_BYTES
        writer, unanswered = self._writer, self.unanswered.line
        try:
            for _ in range(TURN_REQUESTS):
                if end - at < HEAD_BYTES:
                    break
                size, api_key = HEAD.unpack_from(buffer, at)
                stop = at + SIZE_BYTES + size
                is_plain = MIN_FRAME_BYTES <= size <= SMALL_FRAME_BYTES and stop <= end
                if (
                    not is_plain or unanswered or writer.busy or self._requests.is_full or self.is_closing
                ) and not self._is_ready(buffer, at, end, size, api_key):
                    break
                if size <= SMALL_FRAME_BYTES:
                    frame = memoryview(buffer[at + SIZE_BYTES : stop])
                else:
                    frame = memoryview(self._large_frame(buffer, at, end, size))[SIZE_BYTES:]
                at = stop
                if self.is_unproven and not self._server.may_stay(self, frame):
                    return
                self._stats.requests += 1
                reply = self._handler.handle(self, frame)
                if type(reply) is bytes and not unanswered:
                    replies.append(reply)
                    room -= len(reply)
                    if room > 0:
                        continue
                elif not self._answers(api_key, reply, replies):
                    continue
                writer.send(replies)
                replies, room = [], COALESCE_BYTES
            else:
                if at < end:  # the other connections' turn
                    self._pause()
                    self._server.loop.call_soon(self._proceed)
        except Exception as error:
            if replies:
                writer.send(replies)
            self._fail(error)
            return
        if replies:
            writer.send(replies)
        if not self.is_closing and self._frame is None:
            self._keep(buffer, at, end)

    def _is_ready(self, buffer: bytearray, at: int, end: int, size: int, api_key: int) -> bool:
        """Return whether the frame at `at` can be dispatched now; if not, see to it that it will be."""
        if self.is_closing or not self._is_allowed(size, api_key):
            return False
        is_complete = at + SIZE_BYTES + size <= end
        if not is_complete and end - at < (
            HEAD_START_BYTES if self._frame_bytes.is_used else SMALL_FRAME_BYTES
        ):
            return False  # more bytes will come, or the sweep will see that none do
        if is_complete and self._must_wait(api_key):
            self._pause()
            return False
        if size > SMALL_FRAME_BYTES and self._frame_bytes.is_full and type(buffer) is not LargeFrame:
            self._frame_bytes.wait(self._proceed)
            self._pause()
            return False
        if not is_complete:
            self._large_frame(buffer, at, end, size)
        return is_complete

    def _is_allowed(self, size: int, api_key: int) -> bool:
        limit = SMALL_FRAME_BYTES if size <= SMALL_FRAME_BYTES else self._handler.frame_limit(self, api_key)
        if MIN_FRAME_BYTES <= size <= limit:
            return True
        self._stats.refused_frames += 1
        self.abort(f"closed for a frame of {size} bytes for API {api_key}; {limit} are allowed")
        return False

    def _must_wait(self, api_key: int) -> bool:
        """Return whether a complete request has to wait; what it waits for will call _proceed."""
        if self._writer.busy or self._holds:
            return True
        overlaps = self._handler.may_overlap(api_key)
        if self.unanswered.holds_back(overlaps, self._server.limits.max_requests_per_connection):
            return True
        if overlaps and self._requests.is_full:
            self._requests.wait(self._proceed)
            return True
        return False

    def _answers(
        self, api_key: int, reply: Reply | Awaitable[Reply | None] | None, replies: list[Reply]
    ) -> bool:
        """Return whether there is a reply to send now, added to `replies`; else see to it later."""
        if reply is None:
            return False
        if isinstance(reply, (bytes, list, tuple)):
            is_next = not self.unanswered.line
            (replies if is_next else self.unanswered.line).append(reply)
            return is_next
        answer = asyncio.ensure_future(cast(Awaitable[Reply | None], reply), loop=self._server.loop)
        self.unanswered.add(answer, self._handler.may_overlap(api_key))
        answer.add_done_callback(self._answered)
        return False

    def _answered(self, _: asyncio.Future[Reply | None]) -> None:
        replies, failure = self.unanswered.take_answered()
        if self._is_open and replies:
            self._writer.send(replies)
        if failure is not None:
            self._fail(failure)
        self._proceed()

    # Waiting and closing

    def hold(self) -> None:
        """Take no more requests until `release`; for a request that is not answered at once."""
        self._holds += 1

    def release(self) -> None:
        """Take requests again; called once for every `hold`."""
        self._holds -= 1
        if not self._holds:
            self._server.loop.call_soon(self._proceed)

    def _pause(self) -> None:
        self._paused = True
        self._stats.waits += 1
        self._transport.pause_reading()

    def _proceed(self) -> None:
        """Go on after whatever was waited for."""
        if self.is_closing:
            self._finish()
        elif self._paused:
            self._paused = False
            buffer, self._leftover = self._leftover, NOTHING
            self._dispatch(buffer, len(buffer))
            if not self._paused and not self.is_closing:
                self._transport.resume_reading()

    def close(self, reason: str) -> None:
        """Take no more requests, answer those that were taken, then close."""
        if self.is_closing:
            return
        self._server.log.info(self.peer, reason)
        self.is_closing = True
        self._drop_input()
        self._transport.pause_reading()
        self._server.loop.call_soon(self._finish)  # after the reply of the handler that may be calling this

    def abort(self, reason: str, error: BaseException | None = None) -> None:
        """Close at once, whatever is unsent."""
        if self._is_open:
            if not self.is_closing:
                self._server.log.warning(self.peer, reason, error)
            self.is_closing = True
            self._transport.abort()

    def _fail(self, error: BaseException) -> None:
        """Close after an error that escaped the handler: the peer's if it is one of Kafka's, else ours."""
        if isinstance(error, KafkaError):
            self.abort(f"closed: {error.code.name}: {error}")
        else:
            self.abort("closed after an error of ours", error)

    def _finish(self) -> None:
        """Close if nothing is left to be answered or sent."""
        if self.unanswered.line:
            return
        if not self._is_open:
            self._server.forget(self)
        elif not self._writer.busy:
            # Unread bytes in the socket would turn the close into a reset, and lose replies on their way.
            self._writer.end(linger=not self._patience.is_quiet(self._activity(False)))

    def check(self, now_ms: int, is_pressed: bool) -> None:
        """Close if the peer has been idle or stuck for too long; called for all, every second or so.

        `is_pressed` says that others wait for the memory that unfinished frames hold; then a
        trickle of bytes is not enough, and the frame has to be finished soon.
        """
        if not self._is_open:
            return
        waits_for_us = not self._writer.busy and (self._paused or bool(self.unanswered.line))
        quiet_ms = self._patience.quiet_ms(self._activity(is_pressed), now_ms, waits_for_us)
        limits = self._server.limits
        holds_others_up = is_pressed and self._frame is not None
        if quiet_ms >= (limits.pressed_ms if holds_others_up else limits.stall_ms):
            if self.is_closing:
                self._transport.abort()
            elif not self._paused and (self._frame is not None or self._leftover):
                self.abort(f"closed: no progress with a started frame for {quiet_ms} ms")
        if quiet_ms >= limits.max_idle_ms >= 0:
            if self._writer.busy:
                self.abort(f"closed: has read no reply for {quiet_ms} ms")
            else:
                self.close(f"closed: idle for {quiet_ms} ms")

    def _activity(self, is_pressed: bool) -> int:
        """Return a number that changes when the peer sends or reads something."""
        if is_pressed and self._frame is not None:
            return -self._frames_begun
        return self._received + self._writer.accepted - self._writer.backlog
