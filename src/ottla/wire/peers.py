"""A broker's connections to other brokers, by node id.

    response = await peers.call(node_id, ApiKey.ALTER_PARTITION, 3, request)

`address_of` maps a node id to an address; the owner reads it off the cluster image. A broker that moved or
restarted gets a new connection, and requests in flight on the old one fail. Each connection is served in
order, so requests that may wait long use a separate channel: one connection per node and channel.

All failures are KafkaErrors: NetworkException (unreachable, or the connection broke), RequestTimedOut,
BrokerNotAvailable (unknown node). Nothing is retried here: only the caller knows whether a request may be
sent twice. But after a failed connection attempt the next one waits (back-off), so that callers may retry at
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.common.clock import Clock
from ottla.common.listeners import Address
from ottla.protocol.errors import BrokerNotAvailable, KafkaError, NetworkException, RequestTimedOut
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.wire.backoff import Backoff
from ottla.wire.connection import Connection, ConnectionOptions
from ottla.wire.errors import ClientError, ResponseTimeout
from ottla.wire.security import Security

CALLS = "calls"
"""The channel of requests that are answered at once."""

CLIENT_ID = "broker-"
"""The prefix of a broker's client id; its node id follows."""

DEFAULT_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_MS = 5_000
RECONNECT_BACKOFF = Backoff(50, 1_000, jitter=0)
MAX_IN_FLIGHT = 1_000
"""Requests that may wait on one connection."""


class PeerAddress(NamedTuple):
    """The address of a broker, and its epoch: it changes when the broker restarts."""

    host: str
    port: int
    broker_epoch: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


AddressOf = Callable[[int], PeerAddress | None]


class Peers:
    """The connections of this broker to all others."""

    def __init__(
        self, node_id: int, address_of: AddressOf, clock: Clock, security: Security | None = None
    ) -> None:
        self._options = ConnectionOptions(
            f"{CLIENT_ID}{node_id}", CONNECT_TIMEOUT_MS, DEFAULT_TIMEOUT_MS, (), security, negotiates=False
        )
        self._address_of = address_of
        self._clock = clock
        self._channels: dict[tuple[int, str], _Channel] = {}
        self._is_stopped = False

    async def call(
        self,
        node_id: int,
        api_key: int,
        version: int,
        request: Any,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        channel: str = CALLS,
    ) -> Any:
        """Send a request of this version and return the response, a message of the same version."""
        body = request_encoder(api_key, version, version)(request)
        frame, position = await self.exchange(
            node_id, api_key, version, body, timeout_ms=timeout_ms, channel=channel
        )
        return response_decoder(api_key, version, version)(frame, position)

    async def exchange(
        self,
        node_id: int,
        api_key: int,
        version: int,
        body: bytes,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        channel: str = CALLS,
    ) -> tuple[memoryview, int]:
        """Send an encoded request; return the response's frame, and the position of its body."""
        to = self._channel(node_id, channel)
        connection = to.connection
        remaining_ms: float = timeout_ms
        if connection is None or not connection.is_ready:
            began_ms = self._clock.mono_ms()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    connection = await to.connect()
            except TimeoutError:
                raise _timed_out(node_id, timeout_ms) from None
            remaining_ms = max(0, timeout_ms - (self._clock.mono_ms() - began_ms))
        if connection.in_flight >= MAX_IN_FLIGHT:
            raise NetworkException(f"{connection.address}: {MAX_IN_FLIGHT} requests are in flight")
        try:
            return await connection.send(api_key, version, (body,), remaining_ms)
        except ResponseTimeout:
            raise _timed_out(node_id, timeout_ms) from None
        except ClientError as error:
            raise NetworkException(str(error)) from None

    def refresh(self) -> None:
        """Close connections to brokers that moved, restarted or are gone; call it when addresses change."""
        for (node_id, channel), to in list(self._channels.items()):
            if to.address != self._address_of(node_id):
                to.close("the broker moved or restarted")
                del self._channels[node_id, channel]

    def is_cut_off(self, node_id: int, channel: str = CALLS) -> bool:
        """Return whether a connection to a broker broke, or could not be opened, and is not back yet."""
        to = self._channels.get((node_id, channel))
        return to is not None and to.is_broken

    def close(self, node_id: int, channel: str, reason: str) -> None:
        """Close one connection: its requests in flight fail, the next request opens another."""
        to = self._channels.pop((node_id, channel), None)
        if to is not None:
            to.close(reason)

    def stop(self) -> None:
        """Close all connections, and send nothing any more."""
        self._is_stopped = True
        for to in self._channels.values():
            to.close("this broker stops")
        self._channels.clear()

    def _channel(self, node_id: int, channel: str) -> _Channel:
        if self._is_stopped:
            raise NetworkException("this broker stops")
        address = self._address_of(node_id)
        if address is None:
            raise BrokerNotAvailable(f"broker {node_id} is not registered")
        to = self._channels.get((node_id, channel))
        if to is None or to.address != address:
            if to is not None:
                to.close("the broker moved or restarted")
            to = self._channels[node_id, channel] = _Channel(address, self._options, self._clock)
        return to


def _timed_out(node_id: int, timeout_ms: int) -> RequestTimedOut:
    return RequestTimedOut(f"broker {node_id} did not answer within {timeout_ms} ms")


class _Channel:
    """The connection to one incarnation of one broker, opened when needed, and again after it broke."""

    def __init__(self, address: PeerAddress, options: ConnectionOptions, clock: Clock) -> None:
        self.address = address
        self.connection: Connection | None = None
        self._options = options
        self._clock = clock
        self._connecting = asyncio.Lock()
        self._failures = 0
        self._retry_at_ms = 0.0
        self._closed: KafkaError | None = None

    @property
    def is_broken(self) -> bool:
        if self.connection is None:
            return self._failures > 0
        return not self.connection.is_open

    def close(self, reason: str) -> None:
        self._closed = NetworkException(f"{self.address}: {reason}")
        if self.connection is not None:
            self.connection.abort(reason)

    async def connect(self) -> Connection:
        """Return an open, authenticated connection; raise NetworkException if the broker is unreachable."""
        async with self._connecting:  # those that wait here find the connection that the first one opened
            if self._closed is not None:
                raise self._closed
            connection = self.connection
            try:
                if connection is None or not connection.is_open:
                    connection = self.connection = await self._open()
                elif connection.is_expired:
                    await connection.ready()
            except ClientError as error:
                raise NetworkException(str(error)) from error
            return connection

    async def _open(self) -> Connection:
        wait_ms = self._retry_at_ms - self._clock.mono_ms()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)
            if self._closed is not None:
                raise self._closed
        try:
            connection = await Connection.open(Address(self.address.host, self.address.port), self._options)
        except ClientError:
            self._failures += 1
            self._retry_at_ms = self._clock.mono_ms() + RECONNECT_BACKOFF.pause_ms(self._failures)
            raise
        if self._closed is not None:
            connection.abort("closed while it was opened")
            raise self._closed
        self._failures = 0
        return connection
