"""One socket to one broker: requests go out, replies come back, matched by correlation id.

The first request of every connection is ApiVersions, then comes the login, if there is one; after that
each request goes out in the newest version that both sides know. Three ways to ask:

    request   takes a message of kio in one version and returns the reply lifted to the same version
    post      takes an encoded body and returns a future of the reply's frame: for the hot paths
    post_then the same, but calls a function with it, in the same turn of the loop in which it came

A request that is not answered in time closes the connection: what comes later could not be told apart
from the answer to something else, and the broker is not well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from struct import Struct
from typing import TYPE_CHECKING, Self, TypeVar, cast

from ottla.client.address import Address
from ottla.client.errors import BrokerUnreachable, ClientError, ConnectionLost, NotKafka, TlsFailed
from ottla.client.handshake import Session, shake_hands
from ottla.client.in_flight import InFlightRequests, Reply, Then, reply_of
from ottla.client.reasons import api_name, reason_of, tls_reason
from ottla.client.response_reader import MAX_RESPONSE_BYTES, BadFrame, ResponseReader
from ottla.protocol.errors import KafkaError
from ottla.protocol.frames import RequestHeader, encode_request_header
from ottla.protocol.primitives import Buffer
from ottla.protocol.schema.messages import request_encoder, response_decoder

# How requests of a connection begin: size, API, version, correlation id, client id. Encoded once per API.

JOINED_BYTES = 16_384
"""A request up to this size is written in one piece: to copy it is cheaper than to hand over several."""

_SIZE_AND_IDS = Struct(">ihhi")
_IDS_BYTES = 8


class RequestHeads:
    """The heads of one client's requests."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._tails: dict[tuple[int, int], bytes] = {}
        """What follows the correlation id, by API and version."""

    def pieces(
        self, api_key: int, version: int, correlation_id: int, body: Sequence[Buffer]
    ) -> tuple[Buffer, ...]:
        """Return a whole request, with its head, in as many pieces as are best written."""
        size = sum(map(len, body))
        head = self.encode(api_key, version, correlation_id, size)
        return (head, *body) if size > JOINED_BYTES else (b"".join((head, *body)),)

    def encode(self, api_key: int, version: int, correlation_id: int, body_bytes: int) -> bytes:
        """Return the head of a request, with the size of the frame in front."""
        tail = self._tails.get((api_key, version))
        if tail is None:
            header = encode_request_header(RequestHeader(api_key, version, 0, self._client_id))
            tail = self._tails[api_key, version] = header[_IDS_BYTES:]
        size = _IDS_BYTES + len(tail) + body_bytes
        return _SIZE_AND_IDS.pack(size, api_key, version, correlation_id) + tail


if TYPE_CHECKING:
    from ottla.client.security import Security


# Opens the socket of a connection, with TLS if that is wanted, and says why if it cannot be opened.

Protocol = TypeVar("Protocol", bound=asyncio.BaseProtocol)
NO_TLS_HINT = " during the TLS handshake (if that stays so: is it a PLAINTEXT listener?)"
SocketOptions = Sequence[tuple[int, int, int]]


async def dial(
    address: Address, make: Callable[[], Protocol], security: Security | None, options: SocketOptions
) -> Protocol:
    """Connect what `make` returns; raise BrokerUnreachable or TlsFailed."""
    tls = None if security is None else security.tls
    try:
        transport, protocol = await asyncio.get_running_loop().create_connection(
            make, address.host, address.port, ssl=tls
        )
    except OSError as error:  # of which ssl.SSLError is one
        if (reason := tls_reason(error)) is not None:
            raise TlsFailed(address, reason) from None
        hint = "" if tls is None or not isinstance(error, ConnectionResetError) else NO_TLS_HINT
        raise BrokerUnreachable([address], reason_of(error) + hint) from None
    raw = transport.get_extra_info("socket")
    for level, name, value in options:
        if raw is not None:
            raw.setsockopt(level, name, value)
    return protocol


if TYPE_CHECKING:
    from kio.static.primitive import i32Timedelta
    from kio.static.protocol import Payload

    from ottla.client.security import Security

__all__ = ["MAX_RESPONSE_BYTES", "Connection", "Reply", "milliseconds"]

REQUEST_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_MS = 10_000
CLOSE_TIMEOUT_MS = 5_000

_HINT = " (if that stays so: is security_protocol what this listener wants?)"

Response = TypeVar("Response", bound="Payload")


class Connection(asyncio.BufferedProtocol):
    """A connection to one broker; many requests may be under way at once."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self.session = Session()
        """What the broker said when we came: its versions and features, and until when the login holds."""
        self.last_used = 0.0
        """When, by the loop's clock, something was last sent or received."""
        self.request_timeout_ms = REQUEST_TIMEOUT_MS
        """How long a request may stay unanswered, unless it says otherwise."""
        self._heads = RequestHeads(client_id)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._unanswered = InFlightRequests(
            self._loop, on_late=lambda what: self._fail(ConnectionLost(address, what))
        )
        self._next_correlation_id = 0
        self._is_writable = True
        self._writable = asyncio.Event()
        self._writable.set()
        self._failure: ClientError | None = None
        self._gone = asyncio.Event()
        self._security: Security | None = None
        self._login = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        client_id: str = "ottla",
        timeout_ms: int = CONNECT_TIMEOUT_MS,
        security: Security | None = None,
        socket_options: Sequence[tuple[int, int, int]] = (),
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> Self:
        """Connect, agree on versions and log in; raise BrokerUnreachable, NotKafka, TlsFailed or
        AuthenticationFailed if that fails."""
        connection: Self | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await dial(address, lambda: cls(address, client_id), security, socket_options)
                connection._security = security
                connection.request_timeout_ms = request_timeout_ms
                connection.session = await shake_hands(connection, security)
        except TimeoutError:
            if connection is not None:
                connection.close()
            raise BrokerUnreachable([address], f"no answer within {timeout_ms / 1000:g} s") from None
        except ConnectionLost as lost:
            raise BrokerUnreachable([address], f"{lost.reason} during the handshake{_HINT}") from None
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        return connection

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """The oldest and the newest version of each API that the broker serves."""
        return self.session.versions

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._failure is None

    @property
    def unanswered(self) -> int:
        """How many requests wait for their reply."""
        return len(self._unanswered)

    def idle_s(self) -> float:
        """Return for how long nothing was sent or received."""
        return self._loop.time() - self.last_used

    def close(self) -> None:
        """Close the socket; whoever still waits for a reply gets ConnectionLost."""
        self._fail(ConnectionLost(self.address, "closed on this side"))

    async def wait_closed(self) -> None:
        """Wait until what was written is on its way and the socket is closed, but not for ever."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_MS / 1000):
                await self._gone.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    def version_of(self, api_key: int, newest: int) -> int:
        """Return the version to speak: the newest that the broker and `newest` allow."""
        return self.session.version_of(self.address, api_key, newest)

    async def request(
        self,
        request: Payload,
        response_type: type[Response],
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
    ) -> Response:
        """Send `request`, wait for its reply and return it; in `version`, or the newest that both know.

        By default it may stay unanswered for `request_timeout_ms`.
        """
        timeout_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        if version is None:
            version = self.version_of(request.__api_key__, request.__version__)
        await self.ready()
        return await self.exchange(request, version, response_type, timeout_ms)

    async def exchange(
        self, request: Payload, version: int, response_type: type[Response], timeout_ms: float
    ) -> Response:
        """Do what `request` does, but in this version, and without asking whether the login still holds."""
        frame, at = await self.post_message(request, version, timeout_ms)
        return self.decode(frame, at, int(request.__api_key__), version, response_type)

    async def post_message(self, request: Payload, version: int, timeout_ms: float) -> Reply:
        """Send `request` in `version` and return its reply, undecoded."""
        api_key = int(request.__api_key__)
        body = request_encoder(api_key, version, int(request.__version__))(request)
        return await self.post(api_key, version, (body,), timeout_ms)

    @property
    def is_ready(self) -> bool:
        """Whether `ready` would return at once, and the connection is open."""
        return self._is_writable and self._failure is None and not self.session.is_over(self._loop.time())

    async def ready(self) -> None:
        """Wait until the socket takes more, and the login holds."""
        if self.is_ready:
            return
        if self.session.is_over(self._loop.time()):
            await self._log_in_again()
        await self._writable.wait()

    def post(
        self, api_key: int, version: int, body: Sequence[Buffer], timeout_ms: float
    ) -> asyncio.Future[Reply]:
        """Send an encoded request and return the future of its reply; call `ready` before."""
        reply: asyncio.Future[Reply] = self._loop.create_future()
        correlation_id = self._next_id()
        self._write(correlation_id, api_key, version, body)
        self._unanswered.add(correlation_id, api_key, version, timeout_ms, self.last_used, reply)
        return reply

    def post_then(
        self, api_key: int, version: int, body: Sequence[Buffer], timeout_ms: float, then: Then
    ) -> None:
        """Send an encoded request and have `then` called with its reply, or why there is none."""
        correlation_id = self._next_id()
        self._write(correlation_id, api_key, version, body)
        self._unanswered.add(correlation_id, api_key, version, timeout_ms, self.last_used, None, then)

    def post_only(self, api_key: int, version: int, body: Sequence[Buffer]) -> None:
        """Send an encoded request that gets no reply; call `ready` before."""
        self._write(self._next_id(), api_key, version, body)

    def decode(
        self, frame: memoryview, at: int, api_key: int, version: int, response_type: type[Response]
    ) -> Response:
        """Return the reply whose body begins at `at`; a garbled one closes the connection."""
        try:
            decoder = response_decoder(api_key, version, int(response_type.__version__))
            return cast("Response", decoder(frame, at))
        except KafkaError as error:
            raise self.garbled(api_key, version, error) from error

    def garbled(self, api_key: int, version: int, error: Exception) -> NotKafka:
        """Close the connection, because a reply made no sense, and return the error to raise."""
        name = api_name(api_key)
        failure = NotKafka(self.address, f"its reply to {name} v{version} is garbled ({error})")
        self._fail(failure)
        return failure

    def _next_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    def _write(self, correlation_id: int, api_key: int, version: int, body: Sequence[Buffer]) -> None:
        if self._failure is not None:
            raise self._failure
        assert self._transport is not None
        self.last_used = self._loop.time()
        self._transport.writelines(self._heads.pieces(api_key, version, correlation_id, body))

    async def _log_in_again(self) -> None:
        """Prove anew who we are, while everybody else who wants to send waits."""
        async with self._login:
            if not self.session.is_over(self._loop.time()):
                return
            try:
                self.session = await shake_hands(self, self._security)
            except (ClientError, KafkaError):
                self.close()
                raise

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the socket."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand every complete frame to whoever waits for it."""
        try:
            frames = self._reader.received(nbytes)
        except BadFrame as error:
            self._fail(NotKafka(self.address, str(error)))
            return
        self.last_used = self._loop.time()
        for frame in frames:
            self._hand_over(frame)

    def _hand_over(self, frame: memoryview) -> None:
        waiting = self._unanswered.take(frame)
        if waiting is None:
            return
        try:
            reply = reply_of(waiting, frame)
        except KafkaError as error:
            waiting.tell(None, self.garbled(waiting.api_key, waiting.version, error))
        else:
            waiting.tell(reply, None)

    def pause_writing(self) -> None:
        """Make senders wait until the socket has drained."""
        self._is_writable = False
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let senders go on."""
        self._is_writable = True
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        self._fail(ConnectionLost(self.address, reason_of(exc) if exc else "closed by the broker"))
        self._gone.set()

    def _fail(self, error: ClientError) -> None:
        if self._failure is None:
            self._failure = error
        self._unanswered.fail(self._failure)
        self._writable.set()
        if self._transport is not None:
            self._transport.close()


def milliseconds(value: int) -> i32Timedelta:
    """Return a duration as kio's messages want it."""
    return cast("i32Timedelta", timedelta(milliseconds=value))
