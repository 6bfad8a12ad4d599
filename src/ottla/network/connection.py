"""Serve one client connection: split bytes into frames, dispatch requests, send replies in request order.

A frame on the wire:

    size      int32   number of bytes that follow
    api_key   int16   the first field of every request header, which has at least 8 bytes

Receiving: bytes arrive in a scratch buffer that all connections of a server share. Complete frames are copied
out of it. The rest of the last frame is saved and put back in front of the next bytes, until
SMALL_FRAME_BYTES of a larger frame have arrived. Only then does that frame get its own memory, charged to the
broker's budget, and the remaining bytes are received directly into it. So a false length costs nothing.

Dispatching: one request runs at a time, except that requests of overlapping APIs (Produce) may run
concurrently. A request that has to wait stays in the saved bytes, and the socket is not read until it is
dispatched: there is no other queue. It may wait for earlier requests, a client that does not read its
replies, the broker's budgets, other connections' share of the event loop, a handler that called `hold`, or
the end of the time for which the connection is muted. A handler that returns a reply directly costs neither a
task nor a future.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING, cast

from ottla.network.budget import LargeFrame
from ottla.network.handler import Reply
from ottla.network.listener_security import PLAINTEXT, ListenerSecurity
from ottla.network.peer_log import wrong_protocol
from ottla.network.reply_writer import PendingResponses, ReplyWriter
from ottla.protocol.errors import KafkaError
from ottla.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from ottla.network.server import Server

HEAD = struct.Struct(">ih")
"""The size of a frame and its API key."""
HEAD_BYTES = HEAD.size
SIZE_BYTES = 4
MIN_FRAME_BYTES = 8
NO_API_KEY = -1
SMALL_FRAME_BYTES = 16 << 10
SCRATCH_BYTES = 128 << 10

EMPTY = bytearray()

MAX_REQUESTS_PER_ITERATION = 32
"""How many requests are dispatched before other connections are served."""
PROOF_BYTES = 64 << 10
"""How much of a large frame must have arrived before it is allocated, while memory is scarce."""
COALESCE_BYTES = 64 << 10
"""How many bytes of replies are collected before they are written."""


class IdleTracker:
    """Measures how long the peer has been inactive, by comparing an activity counter between two checks."""

    __slots__ = ("_activity_seen", "_since_ms")

    def __init__(self, now_ms: int) -> None:
        self._activity_seen = 0
        self._since_ms = now_ms

    def idle_ms(self, activity: int, now_ms: int, is_waiting_for_us: bool) -> int:
        """Return how long `activity` has not changed, excluding times when the peer was waiting for us."""
        if activity != self._activity_seen or is_waiting_for_us:
            self._activity_seen, self._since_ms = activity, now_ms
        return now_ms - self._since_ms

    def silent_ms(self, activity: int, now_ms: int) -> int:
        """Return how long `activity` has not changed, as of the last check."""
        return 0 if activity != self._activity_seen else now_ms - self._since_ms

    def is_idle(self, activity: int) -> bool:
        """Return whether nothing has happened since the last check."""
        return activity == self._activity_seen


class Connection(asyncio.BufferedProtocol):
    """A client's connection. Handlers use the interface `Peer` of api/support/context.py."""

    __slots__ = (
        "_begun_ms",
        "_filled",
        "_frame",
        "_frame_bytes",
        "_frames_begun",
        "_handler",
        "_holds",
        "_idle_tracker",
        "_is_open",
        "_leftover",
        "_muting",
        "_paused",
        "_received",
        "_requests",
        "_scratch",
        "_security",
        "_server",
        "_stats",
        "_transport",
        "_writer",
        "has_fetched",
        "host",
        "is_client",
        "is_closing",
        "is_token_authenticated",
        "is_unidentified",
        "listener_name",
        "peer",
        "pending_responses",
        "principal",
        "sasl",
        "software",
    )

    _transport: asyncio.Transport
    _writer: ReplyWriter

    def __init__(self, server: Server, listener_name: str, security: ListenerSecurity = PLAINTEXT) -> None:
        self._scratch = server.scratch
        self._frame_bytes = server.frame_bytes
        self._stats = server.stats
        self._leftover = EMPTY  # received and not dispatched yet
        self._frame: LargeFrame | None = None  # a large frame that is being received
        self._filled = 0  # how many of its bytes have been received
        self._frames_begun = 0
        self._received = 0
        self.listener_name = listener_name
        self.host = self.peer = ""  # the address; the address and port, for log lines
        self.is_token_authenticated = False
        self.principal = ANONYMOUS  # set by the handler when the client has authenticated
        self.sasl = None if security.new_sasl is None else security.new_sasl()
        self._security = security
        self.software = ""  # the client's software name (KIP-511), set by the handler
        self.has_fetched = False  # set by the handler
        self.is_closing = False
        self.is_client = self.is_unidentified = False  # set by the connection table
        self._is_open = False
        self._server = server
        self._handler = server.handler
        self._requests = server.requests
        self._paused = False  # a request waits in _leftover, and the socket is not read
        self._holds = 0  # calls of `hold` without `release`, and one while the connection is muted
        self._muting: asyncio.TimerHandle | None = None
        self.pending_responses = PendingResponses(server.requests)
        self._begun_ms = server.clock.mono_ms()
        self._idle_tracker = IdleTracker(self._begun_ms)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to serve, unless a connection limit is reached; with TLS, the handshake is done."""
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername") or ("unknown", 0)
        self.host = address[0]
        self.peer = f"{address[0]}:{address[1]}"
        self._writer = ReplyWriter(self._transport, self._stats, self._resume, self.abort)
        # With TLS, its address was within its quota before the handshake.
        throttle_ms = 0 if self._security.tls is not None else self._server.throttle_ms(self.host)
        delay_s = throttle_ms / 1000 if throttle_ms else self._server.admit(self)
        self._is_open = delay_s is None
        if delay_s is not None:
            self.is_closing = True
            self._transport.pause_reading()
            self._server.abort_later(self._transport, delay_s)
            return
        self._writer.start()
        if self._security.tls is None and (wait_ms := self._server.turn_ms(self.listener_name)):
            self.mute(wait_ms)
        principal: str | None = ANONYMOUS
        if self.sasl is None and self._security.tls is not None:
            principal = self._security.principal(transport.get_extra_info("ssl_object").getpeercert(True))
        self.principal = principal or ANONYMOUS
        self._handler.connection_made(self)
        if principal is None:
            self.abort("closed: no rule of ssl.principal.mapping.rules is for the name in its certificate")

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything except the requests that are still running."""
        self._writer.close()
        del self._writer, self._transport  # break the reference cycle
        if not self._is_open:
            return
        self._is_open, self.is_closing = False, True
        if self._muting is not None:
            self._muting.cancel()
        self._drop_input()
        self._requests.cancel_wait(self._resume)
        self._frame_bytes.cancel_wait(self._resume)
        self._handler.connection_lost(self)
        self._close_if_done()

    def pause_writing(self) -> None:
        """Handle a full socket: the peer does not read."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Handle a drained socket: the peer has read everything."""
        self._writer.resume()

    @property
    def has_queued_request(self) -> bool:
        """Return whether a request waits here for the response to an earlier one."""
        return self._paused and bool(self.pending_responses.queue)

    # Receiving

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Return the buffer for the next bytes."""
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        if not self._leftover:
            return self._scratch
        kept = len(self._leftover)
        self._scratch[:kept] = self._leftover
        return memoryview(self._scratch)[kept:]

    def buffer_updated(self, nbytes: int) -> None:
        """Process the bytes that were received."""
        self._received += nbytes
        self._stats.bytes_in += nbytes
        frame = self._frame
        if frame is None:
            end = nbytes
            if self._leftover:
                end += len(self._leftover)
                self._leftover = EMPTY
            self._dispatch(self._scratch, end)
        else:
            self._filled += nbytes
            if self._filled == len(frame):
                self._frame = None
                self._dispatch(frame, self._filled)

    def _large_frame(self, buffer: bytearray, position: int, end: int, size: int) -> LargeFrame:
        """Allocate a large frame and copy what has arrived of it; the rest is received directly into it."""
        if type(buffer) is LargeFrame:
            return buffer
        frame = LargeFrame(self._frame_bytes, SIZE_BYTES + size)
        here = min(end - position, len(frame))
        frame[:here] = memoryview(buffer)[position : position + here]
        if here < len(frame):
            self._frame, self._filled = frame, here
            self._frames_begun += 1
        return frame

    def _save_leftover(self, buffer: bytearray, position: int, end: int) -> None:
        """Save `buffer[position:end]` until more bytes arrive or the request in it can be dispatched."""
        if position == end:
            return
        if buffer is self._scratch:
            self._leftover = buffer[position:end]
        else:
            if position:
                del buffer[:position]  # moves no bytes
            self._leftover = buffer

    def _drop_input(self) -> None:
        """Discard what was received and not dispatched."""
        self._frame, self._leftover = None, EMPTY

    # Requests in, replies out

    def _dispatch(self, buffer: bytearray, end: int) -> None:
        """Pass the complete frames in `buffer[:end]` to the handler, up to the first that has to wait."""
        position = 0
        replies: list[Reply] = []
        room = COALESCE_BYTES
        writer, pending_responses = self._writer, self.pending_responses.queue
        try:
            for _ in range(MAX_REQUESTS_PER_ITERATION):
                if end - position >= HEAD_BYTES:
                    size, api_key = HEAD.unpack_from(buffer, position)
                elif position < end and self._is_short_token(buffer, position, end):
                    size, api_key = end - position - SIZE_BYTES, NO_API_KEY
                else:
                    break
                stop = position + SIZE_BYTES + size
                is_plain = MIN_FRAME_BYTES <= size <= SMALL_FRAME_BYTES and stop <= end
                if (
                    not is_plain
                    or pending_responses
                    or writer.busy
                    or self._requests.is_full
                    or self._holds
                    or self.is_closing
                ) and not self._is_ready(buffer, position, end, size, api_key):
                    break
                if size <= SMALL_FRAME_BYTES:
                    frame = memoryview(buffer[position + SIZE_BYTES : stop])
                else:
                    frame = memoryview(self._large_frame(buffer, position, end, size))[SIZE_BYTES:]
                position = stop
                if self.is_unidentified and not self._server.admit_by_first_request(self, frame):
                    return
                self._stats.requests += 1
                reply = self._handler.handle(self, frame)
                if type(reply) is bytes and not pending_responses:
                    replies.append(reply)
                    room -= len(reply)
                    if room > 0:
                        continue
                elif not self._queue_reply(api_key, reply, replies):
                    continue
                writer.send(replies)
                replies, room = [], COALESCE_BYTES
            else:
                if position < end:  # let other connections run first
                    self._pause()
                    self._server.loop.call_soon(self._resume)
        except Exception as error:
            if replies:
                writer.send(replies)
            self._fail(error)
            return
        if replies:
            writer.send(replies)
        if not self.is_closing and self._frame is None:
            self._save_leftover(buffer, position, end)

    def _is_short_token(self, buffer: bytearray, position: int, end: int) -> bool:
        """Return whether `buffer[position:end]` is a raw SASL message of a byte or none, as GSSAPI has it."""
        if self.sasl is None or not self.sasl.takes_raw_tokens or end - position < SIZE_BYTES:
            return False
        size = int.from_bytes(buffer[position : position + SIZE_BYTES])
        return size == end - position - SIZE_BYTES

    def _is_ready(self, buffer: bytearray, position: int, end: int, size: int, api_key: int) -> bool:
        """Return whether the frame at `position` can be dispatched now; if not, arrange for `_resume` to be
        called.
        """
        if self.is_closing or not self._is_allowed(size, api_key):
            return False
        is_complete = position + SIZE_BYTES + size <= end
        if not is_complete and end - position < (
            PROOF_BYTES if self._frame_bytes.is_scarce else SMALL_FRAME_BYTES
        ):
            return False  # more bytes will arrive, or `check` closes the connection
        if is_complete and self._must_wait(api_key):
            self._pause()
            return False
        if size > SMALL_FRAME_BYTES and self._frame_bytes.is_full and type(buffer) is not LargeFrame:
            self._frame_bytes.wait(self._resume)
            self._pause()
            return False
        if not is_complete:
            self._large_frame(buffer, position, end, size)
        return is_complete

    def _is_allowed(self, size: int, api_key: int) -> bool:
        limit = SMALL_FRAME_BYTES if size <= SMALL_FRAME_BYTES else self._handler.frame_limit(self, api_key)
        takes_any = self.sasl is not None and self.sasl.takes_raw_tokens
        if (0 if takes_any else MIN_FRAME_BYTES) <= size <= limit:
            return True
        self._stats.refused_frames += 1
        too_large = f"frame of {size} bytes for API {api_key} exceeds the limit of {limit}"
        self.abort(f"closed: {wrong_protocol(size) or too_large}")
        return False

    def _must_wait(self, api_key: int) -> bool:
        """Return whether a complete request has to wait; what it waits for will call `_resume`."""
        if self._writer.busy or self._holds:
            return True
        overlaps = self._handler.may_overlap(api_key)
        if self.pending_responses.blocks_next(overlaps, self._server.limits.max_requests_per_connection):
            return True
        if overlaps and self._requests.is_full:
            self._requests.wait(self._resume)
            return True
        return False

    def _queue_reply(
        self, api_key: int, reply: Reply | Awaitable[Reply | None] | None, replies: list[Reply]
    ) -> bool:
        """Return whether there is a reply to send now, added to `replies`; otherwise it is sent when it is
        due.
        """
        if reply is None:
            return False
        if isinstance(reply, (bytes, list, tuple)):
            is_next = not self.pending_responses.queue
            (replies if is_next else self.pending_responses.queue).append(reply)
            return is_next
        answer = asyncio.ensure_future(cast(Awaitable[Reply | None], reply), loop=self._server.loop)
        self.pending_responses.add(answer, self._handler.may_overlap(api_key))
        answer.add_done_callback(self._on_response)
        return False

    def _on_response(self, _: asyncio.Future[Reply | None]) -> None:
        replies, failure = self.pending_responses.pop_completed()
        if self._is_open and replies:
            self._writer.send(replies)
        if failure is not None:
            self._fail(failure)
        self._resume()

    # Waiting and closing

    def hold(self) -> None:
        """Accept no more requests until `release`."""
        self._holds += 1

    def release(self) -> None:
        """Accept requests again; called once for every `hold`."""
        self._holds -= 1
        if not self._holds:
            self._server.loop.call_soon(self._resume)

    def mute(self, duration_ms: int) -> None:
        """Accept no more requests for a time; responses leave as before. The longest of several counts."""
        end_s = self._server.loop.time() + duration_ms / 1000
        if self._muting is None:
            self.hold()
        elif self._muting.when() >= end_s:
            return
        else:
            self._muting.cancel()
        self._muting = self._server.loop.call_at(end_s, self._unmute)

    def _unmute(self) -> None:
        self._muting = None
        self.release()

    def _pause(self) -> None:
        self._paused = True
        self._stats.waits += 1
        self._transport.pause_reading()

    def _resume(self) -> None:
        """Continue after a wait."""
        if self.is_closing:
            self._close_if_done()
        elif self._paused:
            self._paused = False
            buffer, self._leftover = self._leftover, EMPTY
            self._dispatch(buffer, len(buffer))
            if not self._paused and not self.is_closing:
                self._transport.resume_reading()

    def close(self, reason: str) -> None:
        """Accept no more requests, answer the pending ones, then close."""
        if self.is_closing:
            return
        self._server.log.info(self.peer, reason)
        self.is_closing = True
        self._drop_input()
        self._transport.pause_reading()
        self._server.loop.call_soon(
            self._close_if_done
        )  # after the reply of the handler that may be calling this

    def abort(self, reason: str, error: BaseException | None = None) -> None:
        """Close immediately and discard unsent replies."""
        if self._is_open:
            if not self.is_closing:
                self._server.log.warning(self.peer, reason, error)
            self.is_closing = True
            self._transport.abort()

    def _fail(self, error: BaseException) -> None:
        """Close after an exception from the handler: a KafkaError is the peer's mistake, anything else a bug
        of ours.
        """
        if isinstance(error, KafkaError):
            self.abort(f"closed: {error.code.name}: {error}")
        else:
            self.abort("closed after an internal error", error)

    def _close_if_done(self) -> None:
        """Close if nothing is left to be answered or sent."""
        if self.pending_responses.queue:
            return
        if not self._is_open:
            self._server.forget(self)
        elif not self._writer.busy:
            # Unread bytes in the socket would turn the close into a reset, and lose replies on their way.
            self._writer.close_gracefully(linger=not self._idle_tracker.is_idle(self._activity(False)))

    @property
    def is_unauthenticated(self) -> bool:
        """Return whether the client has not authenticated, and may still do so."""
        sasl = self.sasl
        return sasl is not None and not sasl.is_authenticated and not sasl.has_failed

    def check_stranger(self, now_ms: int, *, is_crowded: bool) -> None:
        """Close if the client takes too long to authenticate; called before `check`, as often.

        `is_crowded`: it may be silent for a short time only.
        """
        if not self._is_open or self.is_closing:
            return
        limits = self._server.limits
        if self._muting is not None:
            self._begun_ms = now_ms
        elif now_ms - self._begun_ms >= limits.authentication_ms:
            self.abort(f"closed: it has not authenticated within {limits.authentication_ms} ms")
        elif is_crowded and self._idle_tracker.silent_ms(self._activity(False), now_ms) >= (
            limits.crowded_authentication_ms
        ):
            self.abort("closed: it has not authenticated, and sends nothing, while many others do so")

    def check(self, now_ms: int, is_memory_scarce: bool) -> None:
        """Close if the peer has been idle or stalled for too long; called for every connection about once a
        second.

        `is_memory_scarce` says that others wait for memory that unfinished frames hold: then a trickle of
        bytes is not enough, and the frame has to be completed soon.
        """
        if not self._is_open:
            return
        waits_for_us = not self._writer.busy and (
            self._paused or self._holds > 0 or bool(self.pending_responses.queue)
        )
        idle_ms = self._idle_tracker.idle_ms(self._activity(is_memory_scarce), now_ms, waits_for_us)
        limits = self._server.limits
        blocks_others = is_memory_scarce and self._frame is not None
        if idle_ms >= (limits.scarce_memory_ms if blocks_others else limits.stall_ms):
            if self.is_closing:
                self._transport.abort()
            elif not self._paused and (self._frame is not None or self._leftover):
                self.abort(f"closed: received no byte of a started frame for {idle_ms} ms")
        if idle_ms >= limits.max_idle_ms >= 0:
            if self._writer.busy:
                self.abort(f"closed: the client has read no reply for {idle_ms} ms")
            else:
                self.close(f"closed: idle for {idle_ms} ms")

    def _activity(self, is_memory_scarce: bool) -> int:
        """Return a number that changes when the peer sends or reads something."""
        if is_memory_scarce and self._frame is not None:
            return -self._frames_begun
        return self._received + self._writer.accepted - self._writer.backlog
