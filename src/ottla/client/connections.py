"""One connection to each broker, opened when it is needed.

A broker that refused a connection is left alone for a while: until then, whoever wants to reach it is
told at once why it could not be reached the last time. A connection that was idle for long is replaced
before it is used again, because the broker may be about to close it.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ottla.client.address import Address
from ottla.client.backoff import Backoff
from ottla.client.client_options import ClientOptions
from ottla.client.connection import Connection
from ottla.client.errors import ClientClosed, ClientError
from ottla.client.security import Security


class _Refusal(NamedTuple):
    """How often in a row a broker could not be reached, why, and until when it is left alone."""

    failures: int
    error: ClientError
    until: float


class Connections:
    """The open connections of a client, by address."""

    def __init__(self, options: ClientOptions) -> None:
        self.features: dict[str, int] = {}
        """The cluster's finalized features and their levels, as the last broker we connected to told."""
        self._options = options
        self._backoff = Backoff(options.reconnect_backoff_ms, options.reconnect_backoff_max_ms)
        self._security = Security(options)
        self._open: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._refusals: dict[Address, _Refusal] = {}
        self._is_closed = False

    def least_busy(self) -> Connection | None:
        """Return the usable connection with the fewest unanswered requests: a broker that hangs has some."""
        usable = [each for each in self._open.values() if self._is_usable(each)]
        return min(usable, key=lambda each: each.unanswered, default=None)

    async def to(self, address: Address) -> Connection:
        """Return the connection to an address; open it if need be."""
        connection = self._open.get(address)
        if connection is not None and self._is_usable(connection):
            return connection
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._open.get(address)
            if connection is None or not self._is_usable(connection):
                connection = self._open[address] = await self._connect(address)
            return connection

    async def close(self) -> None:
        """Close all; return when what was written has left."""
        self._is_closed = True
        connections = list(self._open.values())
        self._open.clear()
        for connection in connections:
            connection.close()
        await asyncio.gather(*(connection.wait_closed() for connection in connections))

    def open_to(self, address: Address) -> Connection | None:
        """Return the connection to an address if it can be used at once."""
        connection = self._open.get(address)
        return connection if connection is not None and self._is_usable(connection) else None

    def _is_usable(self, connection: Connection) -> bool:
        if connection.unanswered == 0 and connection.idle_s() * 1000 > self._options.connections_max_idle_ms:
            connection.close()
        return connection.is_open

    async def _connect(self, address: Address) -> Connection:
        self._check_open()
        loop = asyncio.get_running_loop()
        refusal = self._refusals.get(address)
        if refusal is not None and loop.time() < refusal.until:
            raise refusal.error
        try:
            connection = await Connection.open(
                address,
                client_id=self._options.client_id,
                timeout_ms=self._options.socket_connection_setup_timeout_ms,
                security=self._security,
                socket_options=self._options.socket_options,
                request_timeout_ms=self._options.request_timeout_ms,
            )
        except ClientError as error:
            failures = 1 if refusal is None else refusal.failures + 1
            until = loop.time() + self._backoff.pause_ms(failures) / 1000
            self._refusals[address] = _Refusal(failures, error, until)
            raise
        self._refusals.pop(address, None)
        self.features = connection.session.features
        try:
            self._check_open()
        except ClientClosed:
            connection.close()
            raise
        return connection

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the client is closed")
