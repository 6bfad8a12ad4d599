"""Requests from this broker to others, by node id.

    response = await peers.call(node_id, ApiKey.ALTER_PARTITION, 3, request)

Where a broker is comes from `address_of`, which the owner reads off the cluster image; a broker that moved or
restarted gets a new connection, and requests under way on the old one fail. Each connection answers in
order, so what may take long goes on a channel of its own: one connection for each node and channel.

Everything that goes wrong is a KafkaError: NetworkException (nobody there, or the connection broke),
RequestTimedOut, BrokerNotAvailable (the node is not known). Nothing is retried here: only the caller knows
whether a request may be sent twice. But a node that could not be reached is left alone for a
moment, so that callers may try again at once without hammering it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.common.clock import Clock
from ottla.network.peer_connection import PeerAddress, PeerConnection
from ottla.protocol.errors import BrokerNotAvailable, KafkaError, NetworkException, RequestTimedOut
from ottla.protocol.frames import (
    RequestHeader,
    decode_response_header,
    encode_frame,
    encode_request_header,
)
from ottla.protocol.schema.messages import request_encoder, response_decoder

__all__ = ["CALLS", "CLIENT_ID", "PeerAddress", "Peers"]

CALLS = "calls"
"""The channel of requests that are answered at once."""

CLIENT_ID = "broker-"
"""What the client id of a broker begins with; its node id follows."""

DEFAULT_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_MS = 5_000
FIRST_BACKOFF_MS, LONGEST_BACKOFF_MS = 50, 1_000
MAX_UNANSWERED = 1_000
"""Requests that may wait on one connection."""

AddressOf = Callable[[int], PeerAddress | None]


class Peers:
    """The connections of this broker to all others."""

    def __init__(self, node_id: int, address_of: AddressOf, clock: Clock) -> None:
        self._client_id = f"{CLIENT_ID}{node_id}"
        self._address_of = address_of
        self._clock = clock
        self._links: dict[tuple[int, str], _Link] = {}
        self._next_correlation_id = 0
        self._stopped = False

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
        frame, at = await self.exchange(
            node_id, api_key, version, body, timeout_ms=timeout_ms, channel=channel
        )
        return response_decoder(api_key, version, version)(frame, at)

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
        """Send a request whose body is encoded already; return the answer's frame, and where its body is."""
        link = self._link(node_id, channel)
        connection: PeerConnection | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await link.connection()
                if connection.waiting_count >= MAX_UNANSWERED:
                    raise NetworkException(f"{connection.address}: {MAX_UNANSWERED} requests are unanswered")
                correlation_id = self._next_correlation_id
                self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
                header = encode_request_header(
                    RequestHeader(api_key, version, correlation_id, self._client_id)
                )
                frame = await connection.send(correlation_id, encode_frame(header, body))
        except TimeoutError:
            if connection is not None:  # answers come in order: those behind would be late too
                connection.fail(f"no answer within {timeout_ms} ms")
            raise RequestTimedOut(f"broker {node_id} did not answer within {timeout_ms} ms") from None
        return frame, decode_response_header(frame, api_key, version)[1]

    def refresh(self) -> None:
        """Close connections to brokers that moved, restarted or are gone; call it when addresses change."""
        for (node_id, channel), link in list(self._links.items()):
            if not link.is_at(self._address_of(node_id)):
                link.close("the broker moved or restarted")
                del self._links[node_id, channel]

    def is_cut_off(self, node_id: int, channel: str = CALLS) -> bool:
        """Return whether a connection to a broker broke, or could not be opened, and is not back yet."""
        link = self._links.get((node_id, channel))
        return link is not None and link.is_broken

    def close(self, node_id: int, channel: str, reason: str) -> None:
        """Close one connection: its requests under way fail, the next one opens another."""
        link = self._links.pop((node_id, channel), None)
        if link is not None:
            link.close(reason)

    def stop(self) -> None:
        """Close everything, and send nothing any more."""
        self._stopped = True
        for link in self._links.values():
            link.close("this broker stops")
        self._links.clear()

    def _link(self, node_id: int, channel: str) -> _Link:
        if self._stopped:
            raise NetworkException("this broker stops")
        address = self._address_of(node_id)
        if address is None:
            raise BrokerNotAvailable(f"broker {node_id} is not registered")
        link = self._links.get((node_id, channel))
        if link is None or not link.is_at(address):
            if link is not None:
                link.close("the broker moved or restarted")
            link = self._links[node_id, channel] = _Link(address, self._clock)
        return link


class _Link:
    """The connection to one incarnation of one broker, opened when needed, and again after it broke."""

    def __init__(self, address: PeerAddress, clock: Clock) -> None:
        self._address = address
        self._clock = clock
        self._connection: PeerConnection | None = None
        self._opening = asyncio.Lock()
        self._backoff_ms = 0
        self._not_before_ms = 0
        self._closed: KafkaError | None = None

    def is_at(self, address: PeerAddress | None) -> bool:
        return self._address == address

    @property
    def is_broken(self) -> bool:
        if self._connection is None:
            return self._backoff_ms > 0
        return not self._connection.is_open

    def close(self, reason: str) -> None:
        self._closed = NetworkException(f"{self._address}: {reason}")
        if self._connection is not None:
            self._connection.fail(reason)

    async def connection(self) -> PeerConnection:
        """Return the open connection, or open one; NetworkException if nobody is there."""
        connection = self._connection
        if connection is not None and connection.is_open:
            return connection
        async with self._opening:  # whoever comes second finds the connection of the first
            if self._closed is not None:
                raise self._closed
            if self._connection is None or not self._connection.is_open:
                self._connection = await self._open()
            return self._connection

    async def _open(self) -> PeerConnection:
        wait_ms = self._not_before_ms - self._clock.mono_ms()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)
            if self._closed is not None:
                raise self._closed
        address = self._address
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_MS / 1000):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: PeerConnection(address), address.host, address.port
                )
        except (OSError, TimeoutError) as error:
            self._back_off()
            raise NetworkException(f"{address} cannot be reached: {error or 'no answer'}") from error
        if self._closed is not None:
            connection.fail("closed while it was opened")
            raise self._closed
        self._backoff_ms = 0
        return connection

    def _back_off(self) -> None:
        self._backoff_ms = min(max(FIRST_BACKOFF_MS, 2 * self._backoff_ms), LONGEST_BACKOFF_MS)
        self._not_before_ms = self._clock.mono_ms() + self._backoff_ms
