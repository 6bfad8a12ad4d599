"""Connections for requests that the broker answers late.

A broker serves the requests of a connection in order. A Fetch waits for records, and a JoinGroup for the
other members; other requests must not queue behind them.
"""

from __future__ import annotations

from ottla.client.cluster import Cluster
from ottla.client.errors import NoLeader
from ottla.wire.connection import Connection
from ottla.wire.connection_pool import ConnectionPool


class DedicatedConnections:
    """A second connection to each broker, for one kind of request."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connections = ConnectionPool(cluster.options.pool())

    def open_to(self, node_id: int) -> Connection | None:
        """Return the connection to a broker if it is open."""
        broker = self._cluster.brokers.get(node_id)
        return None if broker is None else self._connections.get_open(broker.address)

    async def to(self, node_id: int) -> Connection:
        """Return the connection to a broker; open it if necessary."""
        if node_id not in self._cluster.brokers:
            await self._cluster.refresh([])
        if node_id not in self._cluster.brokers:
            raise NoLeader(f"broker {node_id} is not in the cluster now")
        return await self._connections.get(self._cluster.brokers[node_id].address)

    async def close(self) -> None:
        """Close all."""
        await self._connections.close()
