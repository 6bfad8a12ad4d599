"""A client's connections: one to each broker, opened when it is needed.

After a failed connection attempt the address is not tried again for a while (reconnect back-off); callers
get the last failure at once. A connection that was idle for long is replaced before its next use, because
the broker may be about to close it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from ottla.common.listeners import Address
from ottla.wire.backoff import Backoff
from ottla.wire.connection import Connection, ConnectionOptions
from ottla.wire.errors import ClientClosed, ClientError


@dataclass(frozen=True)
class PoolOptions:
    """Options of the connections, and when to replace or retry them."""

    connection: ConnectionOptions
    reconnect_backoff: Backoff
    max_idle_ms: int


class _ConnectFailure(NamedTuple):
    """How often in a row an address could not be reached, why, and until when it is not tried."""

    failures: int
    error: ClientError
    retry_at: float


class ConnectionPool:
    """The open connections of a client, by address."""

    def __init__(self, options: PoolOptions) -> None:
        self.features: dict[str, int] = {}
        """The cluster's finalized features and their levels, from the last broker that was connected to."""
        self._options = options
        self._max_idle_s = options.max_idle_ms / 1000
        self._open: dict[Address, Connection] = {}
        self._connecting: dict[Address, asyncio.Lock] = {}
        self._failures: dict[Address, _ConnectFailure] = {}
        self._is_closed = False

    def least_busy(self) -> Connection | None:
        """Return the open connection with the fewest in-flight requests: a broker that hangs has some."""
        usable = [each for each in self._open.values() if each.is_usable(self._max_idle_s)]
        return min(usable, key=lambda each: each.in_flight, default=None)

    async def get(self, address: Address) -> Connection:
        """Return the connection to an address; open it if necessary."""
        if (connection := self.get_open(address)) is not None:
            return connection
        async with self._connecting.setdefault(address, asyncio.Lock()):
            connection = self.get_open(address)
            if connection is None:
                connection = self._open[address] = await self._connect(address)
            return connection

    def get_open(self, address: Address) -> Connection | None:
        """Return the connection to an address if it is open."""
        connection = self._open.get(address)
        return connection if connection is not None and connection.is_usable(self._max_idle_s) else None

    async def close(self) -> None:
        """Close all connections; return when all that was written has left."""
        self._is_closed = True
        connections = list(self._open.values())
        self._open.clear()
        for connection in connections:
            connection.close()
        await asyncio.gather(*(connection.wait_closed() for connection in connections))

    async def _connect(self, address: Address) -> Connection:
        self._check_not_closed()
        loop = asyncio.get_running_loop()
        failed = self._failures.get(address)
        if failed is not None and loop.time() < failed.retry_at:
            raise failed.error
        try:
            connection = await Connection.open(address, self._options.connection)
        except ClientError as error:
            failures = 1 if failed is None else failed.failures + 1
            retry_at = loop.time() + self._options.reconnect_backoff.pause_ms(failures) / 1000
            self._failures[address] = _ConnectFailure(failures, error, retry_at)
            raise
        self._failures.pop(address, None)
        self.features = connection.session.features
        try:
            self._check_not_closed()
        except ClientClosed:
            connection.close()
            raise
        return connection

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise ClientClosed("the client is closed")
