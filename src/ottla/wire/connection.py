"""One connection to a broker: requests are matched to responses by correlation id.

`Connection.open` connects, with TLS if that is configured, and does the handshake (ApiVersions, SASL).
After that each request goes out in the newest version that both sides know. Three ways to send:

    request        takes a message of kio in one version and returns the response in the same version
    send           takes an encoded body and returns the future of the response's frame: for hot paths
    send_callback  the same, but calls a function while the response is being received

A request that gets no response within its timeout closes the connection: responses come in order, so those
behind it would be late too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self, TypeVar, cast

from ottla.common.listeners import Address
from ottla.protocol.errors import KafkaError, UnsupportedVersion
from ottla.protocol.primitives import Buffer
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.wire.errors import (
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    NotKafka,
    ResponseTimeout,
    TlsFailed,
    api_name,
    reason_of,
    tls_reason,
)
from ottla.wire.framing import BadFrame, RequestFramer, ResponseReader
from ottla.wire.handshake import Session, perform_handshake
from ottla.wire.in_flight import Callback, InFlightRequest, InFlightRequests, Response

if TYPE_CHECKING:
    from kio.static.primitive import i32Timedelta
    from kio.static.protocol import Payload

    from ottla.wire.security import Security

__all__ = ["Connection", "ConnectionOptions", "Response", "milliseconds"]

CLOSE_TIMEOUT_MS = 5_000

_HANDSHAKE_HINT = " (if that stays so: is security_protocol what this listener wants?)"
_TLS_HINT = " during the TLS handshake (if that stays so: is it a PLAINTEXT listener?)"

Message = TypeVar("Message", bound="Payload")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to connect."""

    client_id: str = "ottla"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    """The default timeout of a request."""
    socket_options: Sequence[tuple[int, int, int]] = ()
    """(level, name, value) of each."""
    security: Security | None = None
    negotiates: bool = True
    """Whether to ask for the broker's API versions; brokers among themselves use fixed versions."""

    @property
    def needs_handshake(self) -> bool:
        """Whether requests are exchanged before the connection can be used."""
        return self.negotiates or (self.security is not None and self.security.uses_sasl)


class Connection(asyncio.BufferedProtocol):
    """A connection to one broker; many requests may be in flight at once."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self.address = address
        self.session = Session()
        """The result of the handshake: API versions, features, when to re-authenticate."""
        self.last_used = 0.0
        """When, by the loop's clock, something was last sent or received."""
        self.request_timeout_ms = options.request_timeout_ms
        self._security = options.security
        self._framer = RequestFramer(options.client_id)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._in_flight = InFlightRequests(self._loop, self._timed_out)
        self._next_correlation_id = 0
        self._is_writable = True
        self._writable = asyncio.Event()
        self._writable.set()
        self._failure: ClientError | None = None
        self._closed = asyncio.Event()
        self._authenticating = asyncio.Lock()

    @classmethod
    async def open(cls, address: Address, options: ConnectionOptions | None = None) -> Self:
        """Connect and do the handshake.

        Raises BrokerUnreachable, NotKafka, TlsFailed or AuthenticationFailed.
        """
        options = options or ConnectionOptions()
        connection: Self | None = None
        try:
            async with asyncio.timeout(options.connect_timeout_ms / 1000):
                connection = await cls._connect(address, options)
                if options.needs_handshake:
                    connection.session = await perform_handshake(connection, options.security)
        except TimeoutError:
            if connection is not None:
                connection.close()
            seconds = options.connect_timeout_ms / 1000
            raise BrokerUnreachable([address], f"no answer within {seconds:g} s") from None
        except ConnectionLost as lost:
            raise BrokerUnreachable(
                [address], f"{lost.reason} during the handshake{_HANDSHAKE_HINT}"
            ) from None
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        return connection

    @classmethod
    async def _connect(cls, address: Address, options: ConnectionOptions) -> Self:
        tls = None if options.security is None else options.security.tls
        try:
            transport, connection = await asyncio.get_running_loop().create_connection(
                lambda: cls(address, options), address.host, address.port, ssl=tls
            )
        except OSError as error:  # of which ssl.SSLError is a subclass
            if (reason := tls_reason(error)) is not None:
                raise TlsFailed(address, reason) from None
            hint = "" if tls is None or not isinstance(error, ConnectionResetError) else _TLS_HINT
            raise BrokerUnreachable([address], reason_of(error) + hint) from None
        raw = transport.get_extra_info("socket")
        for level, name, value in options.socket_options:
            if raw is not None:
                raw.setsockopt(level, name, value)
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._failure is None

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for their response."""
        return len(self._in_flight.requests)

    def is_usable(self, max_idle_s: float) -> bool:
        """Return whether it is open; close it first if it was idle for longer than `max_idle_s`."""
        if not self._in_flight.requests and self._loop.time() - self.last_used > max_idle_s:
            self.close()
        return self._failure is None

    def close(self, reason: str = "closed on this side") -> None:
        """Close the socket when all written data has left; requests in flight fail with ConnectionLost."""
        self._fail(ConnectionLost(self.address, reason))

    def abort(self, reason: str) -> None:
        """Close the socket at once; requests in flight fail with ConnectionLost."""
        self._fail(ConnectionLost(self.address, reason), aborts=True)

    async def wait_closed(self) -> None:
        """Wait until all that was written has left and the socket is closed, or abort after a while."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_MS / 1000):
                await self._closed.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    def version_of(self, api_key: int, newest: int) -> int:
        """Return the newest version of an API, up to `newest`, that the broker serves."""
        oldest_served, newest_served = self.session.versions.get(api_key, (0, -1))
        version = min(newest, newest_served)
        if version < oldest_served:
            served = f"only versions {oldest_served}-{newest_served}" if newest_served >= 0 else "no version"
            raise UnsupportedVersion(
                f"{self.address} serves {served} of {api_name(api_key)}, this client speaks {newest}"
            )
        return version

    async def request(
        self,
        request: Payload,
        response_type: type[Message],
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
        is_handshake: bool = False,
    ) -> Message:
        """Send `request` and return its response; in `version`, or the newest that both sides know.

        The default timeout is `request_timeout_ms`. Requests of the handshake do not wait for it to end.
        """
        timeout_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        api_key = int(request.__api_key__)
        if version is None:
            version = self.version_of(api_key, request.__version__)
        if not is_handshake and not self.is_ready:
            await self.ready()
        body = request_encoder(api_key, version, int(request.__version__))(request)
        frame, position = await self.send(api_key, version, (body,), timeout_ms)
        return self.decode(frame, position, api_key, version, response_type)

    @property
    def is_ready(self) -> bool:
        """Whether a request can be sent now: open, writable, authenticated."""
        expires_at = self.session.reauthenticate_at
        return (
            self._is_writable
            and self._failure is None
            and (expires_at is None or self._loop.time() < expires_at)
        )

    @property
    def is_expired(self) -> bool:
        """Whether it is time to authenticate again."""
        expires_at = self.session.reauthenticate_at
        return expires_at is not None and self._loop.time() >= expires_at

    async def ready(self) -> None:
        """Wait until the socket is writable; authenticate again if that is due."""
        if self.is_expired:
            await self._reauthenticate()
        await self._writable.wait()

    def send(
        self, api_key: int, version: int, body: Sequence[Buffer], timeout_ms: float
    ) -> asyncio.Future[Response]:
        """Send an encoded request and return the future of its response; call `ready` before."""
        correlation_id = self._write(api_key, version, body)
        future: asyncio.Future[Response] = self._loop.create_future()
        self._in_flight.add(correlation_id, api_key, version, timeout_ms, self.last_used, future)
        return future

    def send_callback(
        self, api_key: int, version: int, body: Sequence[Buffer], timeout_ms: float, callback: Callback
    ) -> None:
        """Send an encoded request and have `callback` called with its response, or the error."""
        correlation_id = self._write(api_key, version, body)
        self._in_flight.add(correlation_id, api_key, version, timeout_ms, self.last_used, None, callback)

    def send_without_response(self, api_key: int, version: int, body: Sequence[Buffer]) -> None:
        """Send an encoded request that gets no response; call `ready` before."""
        self._write(api_key, version, body)

    def decode(
        self, frame: memoryview, position: int, api_key: int, version: int, response_type: type[Message]
    ) -> Message:
        """Return the response whose body begins at `position`; a garbled one closes the connection."""
        try:
            decoder = response_decoder(api_key, version, int(response_type.__version__))
            return cast("Message", decoder(frame, position))
        except KafkaError as error:
            raise self.garbled(api_key, version, error) from error

    def garbled(self, api_key: int, version: int, error: Exception) -> NotKafka:
        """Close the connection because a response cannot be decoded; return the error to raise."""
        name = api_name(api_key)
        failure = NotKafka(self.address, f"its reply to {name} v{version} is garbled ({error})")
        self._fail(failure, aborts=True)
        return failure

    def _write(self, api_key: int, version: int, body: Sequence[Buffer]) -> int:
        """Write a request and return its correlation id."""
        if self._failure is not None:
            raise self._failure
        assert self._transport is not None
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self.last_used = self._loop.time()
        self._transport.writelines(self._framer.frame(api_key, version, correlation_id, body))
        return correlation_id

    async def _reauthenticate(self) -> None:
        """Authenticate again on the same connection (KIP-368); other senders wait."""
        async with self._authenticating:
            if not self.is_expired:
                return
            try:
                self.session = await perform_handshake(self, self._security)
            except (ClientError, KafkaError):
                self.close()
                raise

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Complete the requests whose responses are there now."""
        try:
            frames = self._reader.received(nbytes)
        except BadFrame as error:
            self._fail(NotKafka(self.address, str(error)), aborts=True)
            return
        self.last_used = self._loop.time()
        for frame in frames:
            request = self._in_flight.pop(frame)
            if request is None:
                continue
            try:
                response = request.response(frame)
            except KafkaError as error:
                request.complete(None, self.garbled(request.api_key, request.version, error))
            else:
                request.complete(response, None)

    def pause_writing(self) -> None:
        """Make senders wait until the socket has drained."""
        self._is_writable = False
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let senders continue."""
        self._is_writable = True
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests in flight."""
        self._fail(ConnectionLost(self.address, reason_of(exc) if exc else "closed by the broker"))
        self._closed.set()

    def _timed_out(self, late: list[InFlightRequest]) -> None:
        first = late[0]
        reason = f"no reply to {api_name(first.api_key)} within {first.timeout_ms / 1000:g} s"
        self._fail(ConnectionLost(self.address, reason), aborts=True)
        for each in late:
            each.complete(None, ResponseTimeout(self.address, reason))

    def _fail(self, error: ClientError, *, aborts: bool = False) -> None:
        if self._failure is None:
            self._failure = error
        self._in_flight.fail(self._failure)
        self._writable.set()
        if self._transport is not None:
            if aborts:
                self._transport.abort()
            else:
                self._transport.close()


def milliseconds(value: int) -> i32Timedelta:
    """Return a duration as the field type of kio's messages."""
    return cast("i32Timedelta", timedelta(milliseconds=value))
