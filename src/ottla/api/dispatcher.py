"""Dispatch request frames to handlers, and encode responses and errors.

`handle` raises a `KafkaError` for a frame that cannot be decoded, or whose API or version is not in the
table: the network layer logs it with the client's address, and closes the connection. ApiVersions is the
exception: an unknown version of it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar, cast

from ottla.api.api_versions import unsupported_version
from ottla.api.support.authentication import answer_raw_token, is_from_broker
from ottla.api.support.client_quotas import throttle_ms_of
from ottla.api.support.config_changes import CONFIG_APIS, check_before_forwarding
from ottla.api.support.context import ClientConnection, RequestContext, Services
from ottla.api.support.error_response import error_response, rejecting
from ottla.api.support.forwarding import FORWARDED, forward
from ottla.api.support.librdkafka_offset_fetch import CloseConnection
from ottla.api.support.request_times import BOUNDS_S, RequestTimes
from ottla.api.table import APIS, BYTES, PRELOADED, ROWS, Handler, RawHandler, Reply
from ottla.common.clock import Clock
from ottla.network.peer_log import PeerLog
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import (
    IllegalSaslState,
    InvalidRequest,
    KafkaError,
    NotController,
    UnknownServerError,
    UnsupportedVersion,
)
from ottla.protocol.frames import SIZE, decode_request_header, encode_frame, encode_response_header
from ottla.protocol.schema.messages import request_decoder, response_class, response_encoder
from ottla.security.sasl import FIRST_APIS, SaslSession

logger = logging.getLogger("ottla.slow")

WAIT_BY_DESIGN = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""APIs whose clients choose how long to wait, for records or for other members: only local time counts."""


class SlowRequests:
    """Logs the requests that took longer than `limit_s`: the client, the API, and where the time went.

    At most 20 lines in 10 seconds; an infinite limit disables it.
    """

    def __init__(self, clock: Clock, limit_ms: int) -> None:
        self._log = PeerLog(clock, logger)
        self.count = 0
        self.set_limit(limit_ms)

    def set_limit(self, limit_ms: int) -> None:
        """Set the limit; a negative one disables the log."""
        self.limit_s = limit_ms / 1000 if limit_ms >= 0 else float("inf")

    def note(self, ctx: RequestContext, local_s: float, total_s: float) -> None:
        """Log a request if it was slow."""
        if (local_s if ctx.api_key in WAIT_BY_DESIGN else total_s) <= self.limit_s:
            return
        self.count += 1
        local_ms, total_ms = round(local_s * 1000), round(total_s * 1000)
        client = "no client id" if ctx.client_id is None else f"client {ctx.client_id!r}"
        self._log.warning(
            ctx.connection.peer,
            f"slow {ctx.times.api} v{ctx.version} of {client}: {total_ms} ms, "
            f"{local_ms} ms on the event loop and {total_ms - local_ms} ms waiting",
            api=ctx.times.api,
            version=ctx.version,
            client_id=ctx.client_id,
            total_ms=total_ms,
            local_ms=local_ms,
            waiting_ms=total_ms - local_ms,
        )


log = logging.getLogger(__name__)
T = TypeVar("T")

LOAD_REST_AFTER_S = 10.0
"""How long after its start a broker imports the handlers that only tools call."""
MAX_FRAME_BYTES = 2 * 1024 * 1024
"""The limit for every API but Produce, which `socket.request.max.bytes` limits."""

OVERLAPPING = (ApiKey.PRODUCE, ApiKey.WRITE_TXN_MARKERS)
"""APIs whose responses wait for replication: the next request of the connection may start before."""

ENVELOPE_BYTES = 1024
"""The bytes that an Envelope adds to the request inside."""


@dataclass(frozen=True, slots=True)
class Route:
    """How one version of one API is served: on bytes, or on messages."""

    raw: RawHandler | None
    handler: Handler
    decode: Callable[[memoryview, int], Any]
    encode: Callable[[Any], bytes]
    response_type: type[Any]
    times: RequestTimes
    is_forwarded: bool = False
    """Whether only the controller can serve it."""


@coroutine
def timed(work: Awaitable[T], spent: Callable[[float], None]) -> Generator[Any, Any, T]:
    """Await `work`; call `spent` with the seconds of each of its steps on the event loop."""
    steps = work.__await__()
    step: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        started = perf_counter()
        try:
            waits_for = step(value)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            spent(perf_counter() - started)
        try:
            value = yield waits_for
            step = steps.send
        except BaseException as error:
            step, value = steps.throw, error


class Dispatcher:
    """The request handler of the network layer."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes: dict[tuple[int, int], Route] = {}
        self.slow = SlowRequests(services.clock, services.config.ottla_slow_request_ms)
        services.handle_forwarded = self.handle_forwarded

    def times(self) -> list[RequestTimes]:
        """Return the latency counters of every API version that was requested."""
        routes = [route.times for route in self._routes.values()]
        return routes + [times.of_followers for times in routes if times.of_followers is not None]

    async def load_handlers(self) -> None:
        """Import the handlers of producers and consumers in the background, one by one, and later the rest.

        Then no record waits for an import, a start is short, and a broker whose package is replaced while it
        runs does not mix two versions.
        """
        for row in ROWS:
            if row.key in PRELOADED:
                row.load()
                await asyncio.sleep(0)
        await asyncio.sleep(LOAD_REST_AFTER_S)
        for row in ROWS:
            row.load()
            await asyncio.sleep(0)

    def frame_limit(self, connection: ClientConnection, api_key: int) -> int:
        """Return the maximum size of a frame of this API; 0 if it is not served on this connection now."""
        sasl = connection.sasl
        if sasl is not None and (not sasl.is_authenticated or sasl.takes_raw_tokens):
            is_served = sasl.takes_raw_tokens or api_key in FIRST_APIS
            return self._services.config.sasl_server_max_receive_size if is_served else 0
        if api_key == ApiKey.PRODUCE:
            return self._services.config.socket_request_max_bytes
        if api_key == ApiKey.ENVELOPE:
            return MAX_FRAME_BYTES + ENVELOPE_BYTES
        return min(MAX_FRAME_BYTES, self._services.config.socket_request_max_bytes)

    def may_overlap(self, api_key: int) -> bool:
        """Return whether such a request may start before an earlier one of the connection is answered."""
        return api_key in OVERLAPPING

    def handle(
        self, connection: ClientConnection, frame: memoryview
    ) -> Reply | Awaitable[Reply | None] | None:
        """Serve one request, and measure how long it takes."""
        started = perf_counter()
        if connection.sasl is not None:
            if connection.sasl.takes_raw_tokens:
                ctx = RequestContext(self._services, connection, ApiKey.SASL_AUTHENTICATE, 0, 0, None)
                return answer_raw_token(ctx, frame)
            self._check_authenticated(connection.sasl, frame)
        header, body_at = decode_request_header(frame)
        api_key, version, correlation_id, client_id = header
        route = self._routes.get((api_key, version)) or self._find_route(api_key, version)
        if route is None:
            return self._refuse_api_versions(correlation_id)
        ctx = RequestContext(
            self._services, connection, api_key, version, correlation_id, client_id, route.times
        )
        if route.raw is not None:
            reply = route.raw(frame, body_at, ctx)
        else:
            reply = self._handle(route, ctx, frame, body_at)
        local_s = perf_counter() - started
        if self._services.quotas is not None:
            self._services.quotas.spent(ctx, local_s)
        if type(reply) is bytes or reply is None or isinstance(reply, (list, tuple)):
            times = ctx.times
            times.local_s += local_s
            times.buckets[0 if local_s <= BOUNDS_S[0] else bisect_left(BOUNDS_S, local_s)] += 1
            if local_s > self.slow.limit_s:
                self.slow.note(ctx, local_s, local_s)
            return reply
        later = cast(Awaitable[Reply | None], reply)
        if self._services.quotas is not None and not isinstance(later, asyncio.Future):
            later = timed(later, partial(self._services.quotas.spent, ctx))
        if isinstance(later, asyncio.Future):  # waits without a task: a done callback sends the response
            later.add_done_callback(lambda _: self._answered(ctx, started, local_s))
            return later
        return self._await_reply(later, ctx, started, local_s)

    async def _await_reply(
        self, reply: Awaitable[Reply | None], ctx: RequestContext, started: float, local_s: float
    ) -> Reply | None:
        try:
            return await reply
        finally:
            self._answered(ctx, started, local_s)

    def _answered(self, ctx: RequestContext, started: float, local_s: float) -> None:
        total_s = perf_counter() - started
        ctx.times.answered(local_s, total_s)
        if total_s > self.slow.limit_s:
            self.slow.note(ctx, local_s, total_s)

    def _handle(
        self, route: Route, ctx: RequestContext, frame: memoryview, body_at: int
    ) -> bytes | Awaitable[bytes]:
        if route.is_forwarded and self._services.peers is not None:
            return self._forward(route, ctx, bytes(frame))
        request = route.decode(frame, body_at)
        try:
            response = route.handler(request, ctx)
        except Exception as error:
            response = self._failure(route, ctx, error)
        if isawaitable(response):
            return self._await_response(route, ctx, request, response)
        return self._encode(route, ctx, response)

    async def handle_forwarded(self, connection: ClientConnection, frame: bytes) -> bytes:
        """Serve a request that another broker forwarded; return the response frame without its size."""
        header, body_at = decode_request_header(frame)
        api_key, version = header.api_key, header.api_version
        if api_key not in FORWARDED:
            raise InvalidRequest(f"API key {api_key} is not forwarded to the controller")
        route = self._routes.get((api_key, version)) or self._find_route(api_key, version)
        assert route is not None, "only ApiVersions has no route"
        ctx = RequestContext(
            self._services, connection, api_key, version, header.correlation_id, header.client_id, route.times
        )
        request = route.decode(memoryview(frame), body_at)
        response = route.handler(request, ctx)
        return (await self._await_response(route, ctx, request, response))[SIZE.size :]

    async def _forward(self, route: Route, ctx: RequestContext, frame: bytes) -> bytes:
        try:
            if ctx.api_key in CONFIG_APIS and not self._services.controller.is_active:
                request = route.decode(memoryview(frame), decode_request_header(frame)[1])
                check_before_forwarding(request, ctx)
            answer = await forward(frame, ctx)
            if throttle_ms := throttle_ms_of(answer, ctx):
                ctx.connection.mute(throttle_ms)
            return answer
        except KafkaError as error:
            request = route.decode(memoryview(frame), decode_request_header(frame)[1])
            return self._encode(route, ctx, await self._refusal(route, ctx, request, error))

    def _check_authenticated(self, sasl: SaslSession, frame: memoryview) -> None:
        """Raise the error that closes the connection, before anything is decoded, if it must authenticate."""
        api_key = frame[0] << 8 | frame[1]
        if not sasl.admits(api_key, self._services.clock.mono_ms()):
            why = "its session has expired" if sasl.is_authenticated else "it has not authenticated"
            raise IllegalSaslState(f"the client sent a request of API {api_key}, but {why}")

    def is_from_broker(self, connection: ClientConnection, frame: memoryview) -> bool | None:
        """Return whether a request comes from another registered broker; None: it has not authenticated."""
        is_broker = self._services.is_broker(connection)
        if not is_broker:
            return is_broker
        return is_from_broker(self._services, connection, decode_request_header(frame)[0].client_id)

    def connection_made(self, connection: ClientConnection) -> None:
        """Do nothing: the network layer counts connections."""

    def connection_lost(self, connection: ClientConnection) -> None:
        """Cancel the waiting requests of a closed connection."""
        self._services.purgatory.cancel(connection)
        self._services.groups.leave(connection)

    async def _await_response(
        self, route: Route, ctx: RequestContext, request: Any, response: Awaitable[Any]
    ) -> bytes:
        try:
            done = await response
        except Exception as error:
            if route.is_forwarded and not isinstance(error, NotController):
                done = await self._refusal(route, ctx, request, error)
            else:  # the forwarding broker waits for the next controller
                done = self._failure(route, ctx, error)
        return self._encode(route, ctx, done)

    async def _refusal(self, route: Route, ctx: RequestContext, request: Any, error: Exception) -> Any:
        """Return the error response to a request for the controller that failed as a whole."""
        try:
            return self._failure(route, ctx, error)
        except KafkaError as refused:
            return await route.handler(request, rejecting(ctx, refused))

    def _failure(self, route: Route, ctx: RequestContext, error: Exception) -> Any:
        if isinstance(error, CloseConnection):
            raise error.error
        if not isinstance(error, KafkaError):
            name = ApiKey(ctx.api_key).name
            log.error("%s v%d from %s failed", name, ctx.version, ctx.connection.peer, exc_info=error)
            error = UnknownServerError("internal error; see the broker's log")
        response = error_response(route.response_type, error)
        if response is None:
            raise error
        return response

    def _encode(self, route: Route, ctx: RequestContext, response: Any) -> bytes:
        if self._services.quotas is not None:
            response = self._services.quotas.throttled(ctx, response)
        if isinstance(response, bytes):  # a long response, encoded in parts
            return response
        header = encode_response_header(ctx.api_key, ctx.version, ctx.correlation_id)
        return encode_frame(header, route.encode(response))

    @staticmethod
    def _refuse_api_versions(correlation_id: int) -> bytes:
        encode = response_encoder(ApiKey.API_VERSIONS, 0, APIS[ApiKey.API_VERSIONS].max_version)
        header = encode_response_header(ApiKey.API_VERSIONS, 0, correlation_id)
        return encode_frame(header, encode(unsupported_version()))

    def _find_route(self, api_key: int, version: int) -> Route | None:
        """Return the route, built on first use; None for an unknown version of ApiVersions."""
        row = APIS.get(api_key)
        if row is None:
            raise InvalidRequest(f"API key {api_key} is not served")
        serving = row.range_for(version)
        if serving is None:
            if api_key == ApiKey.API_VERSIONS:
                return None
            raise UnsupportedVersion(
                f"{row.name} v{version} is not served (only v{row.min_version} to v{row.max_version})"
            )
        newest = serving.max_version
        times = RequestTimes(row.name, version)
        if api_key == ApiKey.FETCH:
            times = RequestTimes("FetchConsumer", version, RequestTimes("FetchFollower", version))
        if serving.kind == BYTES:
            route = Route(serving.load(), _never, _never, _never, type(None), times)
        else:
            route = Route(
                None,
                serving.load(),
                request_decoder(api_key, version, newest),
                response_encoder(api_key, version, newest),
                response_class(api_key, newest),
                times,
                api_key in FORWARDED,
            )
        self._routes[api_key, version] = route
        return route


def _never(*_arguments: object) -> Any:
    raise AssertionError("raw APIs encode and decode their own bytes")
