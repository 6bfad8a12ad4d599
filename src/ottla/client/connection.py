"""One socket to one broker: requests go out, replies come back, matched by correlation id.

The first request of every connection is ApiVersions; after that each request goes out in the
newest version that both sides know. Callers see one version of the message classes only:
`request` takes a request of it and returns the reply lifted to the same version.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar, cast

from kio.schema.api_versions.v0 import ApiVersionsRequest as OldApiVersionsRequest
from kio.schema.api_versions.v0 import ApiVersionsResponse as OldApiVersionsResponse
from kio.schema.api_versions.v3 import ApiVersionsRequest, ApiVersionsResponse
from kio.schema.errors import ErrorCode

from ottla import __version__
from ottla.client.address import Address
from ottla.client.errors import BrokerUnreachable, ClientError, ConnectionLost, NotKafka, raise_for
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError, UnsupportedVersion
from ottla.protocol.frames import (
    SIZE,
    RequestHeader,
    decode_response_header,
    encode_frame,
    encode_request_header,
)
from ottla.protocol.messages import request_encoder, response_decoder

if TYPE_CHECKING:
    from kio.static.primitive import i32Timedelta
    from kio.static.protocol import Payload

MAX_RESPONSE_BYTES = 512 * 1024 * 1024
DEFAULT_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_MS = 10_000
CLOSE_TIMEOUT_MS = 5_000

Response = TypeVar("Response", bound="Payload")


class Connection(asyncio.Protocol):
    """A connection to one broker; many requests may be under way at once."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: dict[int, asyncio.Future[memoryview]] = {}
        self._next_correlation_id = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._failure: ClientError | None = None
        self._gone = asyncio.Event()

    @classmethod
    async def open(
        cls, address: Address, *, client_id: str = "ottla", timeout_ms: int = CONNECT_TIMEOUT_MS
    ) -> Connection:
        """Connect and agree on versions; raise BrokerUnreachable or NotKafka if that fails."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: cls(address, client_id), address.host, address.port
                )
        except TimeoutError:
            raise BrokerUnreachable([address], f"no answer within {timeout_ms // 1000} s") from None
        except OSError as error:
            raise BrokerUnreachable([address], _reason(error)) from None
        try:
            await connection._agree_on_versions(timeout_ms)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._failure is None

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
        oldest_served, newest_served = self.versions.get(api_key, (0, -1))
        version = min(newest, newest_served)
        if version < oldest_served:
            served = f"only versions {oldest_served}-{newest_served}" if newest_served >= 0 else "no version"
            raise UnsupportedVersion(
                f"{self.address} serves {served} of {_name(api_key)}, this client speaks {newest}"
            )
        return version

    async def request(
        self, request: Payload, response_type: type[Response], *, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> Response:
        """Send `request`, wait for its reply and return it."""
        version = self.version_of(request.__api_key__, request.__version__)
        return await self._exchange(request, version, response_type, timeout_ms)

    async def send_only(self, request: Payload) -> None:
        """Send a request that gets no reply (produce with acks=0)."""
        version = self.version_of(request.__api_key__, request.__version__)
        await self._send(request, version)

    async def _agree_on_versions(self, timeout_ms: int) -> None:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
        reply: ApiVersionsResponse | OldApiVersionsResponse
        frame = await self._exchange_raw(request, 3, timeout_ms)
        if _peek_error(frame) == ErrorCode.unsupported_version:  # then the rest is written in version 0
            reply = await self._exchange(OldApiVersionsRequest(), 0, OldApiVersionsResponse, timeout_ms)
        else:
            reply = self._decode(frame, ApiKey.API_VERSIONS, 3, ApiVersionsResponse)
        raise_for(reply.error_code, f"{self.address} refused to say which versions it speaks")
        self.versions = {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys}

    async def _exchange(
        self, request: Payload, version: int, response_type: type[Response], timeout_ms: int
    ) -> Response:
        frame = await self._exchange_raw(request, version, timeout_ms)
        return self._decode(frame, request.__api_key__, version, response_type)

    async def _exchange_raw(self, request: Payload, version: int, timeout_ms: int) -> memoryview:
        correlation_id = await self._send(request, version)
        reply = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                frame: memoryview = await reply
                return frame
        except TimeoutError:
            error = ConnectionLost(self.address, f"no reply within {timeout_ms / 1000:g} s")
            self._fail(error)
            raise error from None
        finally:
            self._waiting.pop(correlation_id, None)

    async def _send(self, request: Payload, version: int) -> int:
        await self._writable.wait()
        if self._failure is not None:
            raise self._failure
        assert self._transport is not None
        api_key = int(request.__api_key__)
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(api_key, version, correlation_id, self._client_id)
        body = request_encoder(api_key, version, int(request.__version__))(request)
        self._transport.write(encode_frame(encode_request_header(header), body))
        return correlation_id

    def _decode(
        self, frame: memoryview, api_key: int, version: int, response_type: type[Response]
    ) -> Response:
        as_version = int(response_type.__version__)
        try:
            _, position = decode_response_header(frame, api_key, version)
            return cast("Response", response_decoder(api_key, version, as_version)(frame, position))
        except KafkaError as error:
            failure = NotKafka(self.address, f"its reply to {_name(api_key)} v{version} is garbled ({error})")
            self._fail(failure)
            raise failure from error

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the socket."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand every complete frame to whoever waits for it."""
        self._received += data
        while len(self._received) >= 8:
            (size,) = SIZE.unpack_from(self._received)
            if not 4 <= size <= MAX_RESPONSE_BYTES:
                self._fail(NotKafka(self.address, f"it sent a frame of {size} bytes"))
                return
            if len(self._received) < 4 + size:
                return
            frame = memoryview(bytes(memoryview(self._received)[4 : 4 + size]))
            del self._received[: 4 + size]
            waiter = self._waiting.get(SIZE.unpack_from(frame)[0])
            if waiter is not None and not waiter.done():
                waiter.set_result(frame)

    def pause_writing(self) -> None:
        """Make senders wait until the socket has drained."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let senders go on."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits."""
        reason = _reason(exc) if exc is not None else "closed by the broker"
        self._fail(ConnectionLost(self.address, reason))
        self._gone.set()

    def _fail(self, error: ClientError) -> None:
        if self._failure is None:
            self._failure = error
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(self._failure)
        self._writable.set()
        if self._transport is not None:
            self._transport.close()


def milliseconds(value: int) -> i32Timedelta:
    """Return a duration as kio's messages want it."""
    return cast("i32Timedelta", timedelta(milliseconds=value))


def _name(api_key: int) -> str:
    return ApiKey(api_key).name.title().replace("_", "")


def _peek_error(frame: memoryview) -> int:
    return int.from_bytes(frame[4:6], "big", signed=True)


def _reason(error: Exception) -> str:
    """Return what the operating system said, in words (asyncio overwrites them with its own)."""
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    if isinstance(error, OSError) and (error.errno is not None or "Errno 111" in str(error)):
        text = os.strerror(error.errno or errno.ECONNREFUSED)
        return text[0].lower() + text[1:]
    return str(error) or type(error).__name__
