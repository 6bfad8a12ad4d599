"""A crowd of idle connections that fills a simulated broker's table of connections."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ottla.broker.stores import network_limits
from ottla.testing.sim_client import PORT
from ottla.testing.sim_cluster import SimCluster
from ottla.testing.sim_loop import SimProcess
from ottla.testing.sim_node import SimNode

RESERVE = 12
"""Places for brokers; four or five are in use by each other broker."""
CROWD = 3 * RESERVE


class Crowd:
    """Idle clients on a host of their own; `leave` closes their connections."""

    def __init__(self, cluster: SimCluster) -> None:
        self._loop = cluster.loop
        self._process = SimProcess(cluster.loop, "crowd")
        self._there: dict[str, list[asyncio.Transport]] = {}

    def fill(self, node: SimNode) -> None:
        """Leave no connection to clients that have none yet, and want some of those kept for brokers, too."""
        if node.broker is not None:
            server = node.broker.server
            server.change_limits(replace(server.limits, max_connections=0, broker_reserve=RESERVE))
            self._there.setdefault(node.host, [])
            self._process.spawn(self._connect(node.host))

    def leave(self, node: SimNode) -> None:
        """Let everybody in again."""
        for each in self._there.pop(node.host, ()):
            each.close()
        if node.broker is not None:
            node.broker.server.change_limits(network_limits(node.broker.config))

    async def _connect(self, host: str) -> None:
        for _ in range(CROWD):
            try:
                transport, _ = await self._loop.create_connection(asyncio.Protocol, host, PORT)
            except OSError:
                return
            if host not in self._there:
                transport.close()
                return
            self._there[host].append(transport)
