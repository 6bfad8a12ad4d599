"""Limit the open connections, with a reserve that only brokers may use.

Problem: clients that use up every connection lock out followers and the controller, and replication stops.
Clients and brokers share a listener, so the kind of peer is known only from its first request.

Solution: a connection over the limit gets a place in the reserve until its first request arrives. A broker
may keep it; any other peer is rejected, unless a client has disconnected in the meantime. While the reserve
is full, the connection that has sent nothing for the longest time makes room for the next (decision 81).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.network.limits import NetworkLimits

if TYPE_CHECKING:
    from ottla.network.connection import Connection


class ConnectionTable:
    """The open connections: of clients, of brokers in the reserve, and of peers not identified yet."""

    def __init__(self) -> None:
        self.all: dict[Connection, None] = {}
        """In the order in which they were accepted."""
        self._per_host: dict[str, int] = {}  # without those in the reserve
        self._clients = 0
        self._brokers: dict[Connection, None] = {}  # in the reserve
        self._unidentified: dict[Connection, int] = {}  # in the reserve, since when

    def add(self, connection: Connection, limits: NetworkLimits, now_ms: int) -> str | None:
        """Add a connection as a client, or to the reserve; return the reason if neither has room."""
        reason = self._refusal(connection.host, limits)
        if reason is None:
            self._add_client(connection)
        elif len(self._brokers) + len(self._unidentified) < limits.broker_reserve:
            self._unidentified[connection] = now_ms
            connection.is_unidentified = True
        else:
            return reason
        self.all[connection] = None
        return None

    def longest_silent(self) -> Connection | None:
        """Return the connection in the reserve that has waited longest without a request."""
        return next(iter(self._unidentified), None)

    def silent_since(self, until_ms: int) -> list[Connection]:
        """Return the connections in the reserve that were accepted before `until_ms` and have sent no
        request.
        """
        return [each for each, since_ms in self._unidentified.items() if since_ms <= until_ms]

    def first_request(self, connection: Connection, limits: NetworkLimits, *, is_broker: bool) -> str | None:
        """Keep a broker's connection in the reserve; return the reason why any other is rejected."""
        self._leave_reserve(connection)
        reason = None if is_broker else self._refusal(connection.host, limits)
        if is_broker:
            self._brokers[connection] = None
        elif reason is None:
            self._add_client(connection)
        return reason

    def evict(self, connection: Connection) -> None:
        """Free the place of a connection in the reserve that is being closed."""
        self._leave_reserve(connection)

    def remove(self, connection: Connection) -> bool:
        """Free the place of a connection; return whether it was in the table."""
        if connection not in self.all:
            return False
        del self.all[connection]
        host = connection.host
        if connection.is_client:
            self._clients -= 1
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]
        else:
            self._brokers.pop(connection, None)
            self._leave_reserve(connection)
        return True

    def _add_client(self, connection: Connection) -> None:
        connection.is_client = True
        self._clients += 1
        self._per_host[connection.host] = self._per_host.get(connection.host, 0) + 1

    def _leave_reserve(self, connection: Connection) -> None:
        connection.is_unidentified = False
        self._unidentified.pop(connection, None)

    def _refusal(self, host: str, limits: NetworkLimits) -> str | None:
        """Return why a client from `host` cannot have another connection, or None if it can."""
        from_host = self._per_host.get(host, 0)
        if self._clients >= limits.max_connections:
            return f"{self._clients} connections are open (max.connections)"
        if self._clients >= limits.descriptor_connections:
            return f"{self._clients} connections are open, as many as the descriptor limit leaves room for"
        if from_host >= limits.max_connections_per_ip:
            return f"{from_host} connections from {host} are open (max.connections.per.ip)"
        return None
