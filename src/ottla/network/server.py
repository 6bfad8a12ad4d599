"""Listeners and their connections: admission, the periodic idle check, start and stop."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Iterable
from dataclasses import replace

from ottla.common.clock import Clock
from ottla.common.listeners import Listener
from ottla.network.budget import Budget
from ottla.network.connection import SCRATCH_BYTES, Connection
from ottla.network.connection_table import ConnectionTable
from ottla.network.handler import RequestHandler
from ottla.network.limits import NetworkLimits, NetworkStats
from ottla.network.listener_security import PLAINTEXT, ListenerSecurity
from ottla.network.peer_log import PeerLog, logger
from ottla.network.tls_listener import TlsHandshakes, TlsListener
from ottla.security.address_quotas import AddressQuotas
from ottla.security.connection_rates import ConnectionRates

BACKLOG = 512
CANCEL_S = 1.0
MAX_DELAYED_ABORTS = 500
"""How many rejected connections are kept open for a while; others are closed at once."""
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES = 60, 15, 4


class Server:
    """Serves a handler on listeners. Belongs to the event loop that was running when it was created."""

    def __init__(self, handler: RequestHandler, limits: NetworkLimits, clock: Clock) -> None:
        self.handler = handler
        self.limits = limits
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.log = PeerLog(clock)
        self.stats = NetworkStats()
        self.scratch = bytearray(SCRATCH_BYTES)
        self.requests = Budget(limits.queued_requests)
        self.frame_bytes = Budget(limits.queued_request_bytes)
        self.listeners: tuple[Listener, ...] = ()  # with the ports really in use
        self.handshakes = TlsHandshakes(clock, self.log, self.stats, limits)
        self._servers: list[asyncio.Server | TlsListener] = []
        self._table = ConnectionTable()
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self.address_quotas: AddressQuotas | None = None
        """How many connections per second an address may open; None for any number."""
        self.connection_rates: ConnectionRates | None = None
        """How many connections per second are accepted; None for any number."""
        self._delayed_aborts = 0

    async def bind(self, listener: Listener, security: ListenerSecurity = PLAINTEXT) -> None:
        """Bind the port of `listener`, or raise OSError; connections are refused until `serve`."""
        self.listeners = (*self.listeners, await self._listen(listener, security))

    async def serve(self) -> None:
        """Accept connections on every bound listener."""
        for server in self._servers:
            await server.start_serving()
        self._sweep_later()

    async def start(self, listeners: Iterable[Listener]) -> None:
        """Listen on all of `listeners`, or on none if one fails (OSError)."""
        try:
            for listener in listeners:
                await self.bind(listener)
            await self.serve()
        except BaseException:
            self._close_listeners()
            self.listeners = ()
            raise

    async def stop(self, grace_s: float) -> None:
        """Stop accepting and reading, answer pending requests within `grace_s`, close everything."""
        self._is_stopping = True
        self._close_listeners()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.handshakes.stop()
        for connection in list(self._table.all):
            connection.close("closed: the broker is stopping")
        if not await self._is_empty_within(grace_s):
            logger.warning(
                "closing %d connections whose requests were not answered within %.1f s",
                len(self._table.all), grace_s,
            )  # fmt: skip
            for connection in list(self._table.all):
                connection.abort("closed: the broker is stopping")
                connection.pending_responses.cancel()
            await self._is_empty_within(CANCEL_S)

    @property
    def connections(self) -> list[Connection]:
        """The open connections."""
        return list(self._table.all)

    def change_limits(self, limits: NetworkLimits) -> None:
        """Apply other limits; socket buffers keep their sizes, open connections stay open."""
        self.limits = limits
        self.handshakes.change_limits(limits)
        self.requests.change_limit(limits.queued_requests)
        self.frame_bytes.change_limit(limits.queued_request_bytes)

    def sweep(self) -> None:
        """Close the connections that have been idle or stalled for too long."""
        now_ms = self.clock.mono_ms()
        is_memory_scarce = self.frame_bytes.waiting > 0
        self.handshakes.evict_slow()
        for connection in self._table.silent_since(now_ms - self.limits.first_request_ms):
            self._reject(connection, "it sent no request, and only the reserve for brokers is left")
        strangers = sum(each.is_unauthenticated for each in self._table.all)
        for connection in list(self._table.all):
            if connection.is_unauthenticated:
                connection.check_stranger(now_ms, is_crowded=strangers > self.limits.unauthenticated)
            connection.check(now_ms, is_memory_scarce)

    # For connections

    def throttle_ms(self, host: str) -> int:
        """Record a new connection of an address; return in how many milliseconds it is to be closed.

        0: the address is within its quota.
        """
        if self.address_quotas is None:
            return 0
        throttle_ms = self.address_quotas.connected(host, self.clock.mono_ms())
        self.stats.throttled += throttle_ms > 0
        return throttle_ms

    def admit(self, connection: Connection) -> float | None:
        """Count a new connection, or reject it: return None, or in how many seconds it is to be closed."""
        now_ms = self.clock.mono_ms()
        if self._is_stopping:
            reason: str | None = "the broker is stopping"
        else:
            reason = self._table.add(connection, self.limits, now_ms)
            if reason is not None and (silent := self._table.longest_silent()) is not None:
                self._reject(silent, reason)
                reason = self._table.add(connection, self.limits, now_ms)
        if reason is None:
            self._empty.clear()
            self.stats.accepted += 1
            self.stats.connections += 1
            return None
        self.stats.rejected += 1
        self.log.warning(connection.peer, f"rejected: {reason}")
        return 0

    def turn_ms(self, listener_name: str) -> int:
        """Record a new connection; return in how many milliseconds it is its turn to be served."""
        if self.connection_rates is None:
            return 0
        wait_ms = self.connection_rates.connected(listener_name, self.clock.mono_ms())
        if wait_ms:
            self.stats.delayed += 1
        return wait_ms

    def abort_later(self, transport: asyncio.Transport, delay_s: float) -> None:
        """Close a rejected connection after a time, so that its client does not retry at once."""
        if not delay_s or self._delayed_aborts >= MAX_DELAYED_ABORTS:
            transport.abort()
            return
        self._delayed_aborts += 1
        self.loop.call_later(delay_s, self._abort_delayed, transport)

    def _abort_delayed(self, transport: asyncio.Transport) -> None:
        self._delayed_aborts -= 1
        transport.abort()

    def admit_by_first_request(self, connection: Connection, frame: memoryview) -> bool:
        """Return whether a connection in the reserve may stay, by its first request; otherwise close it."""
        is_broker = self.handler.is_from_broker(connection, frame)
        if is_broker is None:
            return True  # it may still authenticate, within `first_request_ms`
        reason = self._table.first_request(connection, self.limits, is_broker=is_broker)
        if reason is not None:
            self._reject(connection, reason)
        return reason is None

    def forget(self, connection: Connection) -> None:
        """Free the place of a closed connection that has no running requests."""
        if self._table.remove(connection):
            self.stats.connections -= 1
            if not self._table.all:
                self._empty.set()

    def _reject(self, connection: Connection, reason: str) -> None:
        """Close a connection in the reserve."""
        self._table.evict(connection)
        self.stats.rejected += 1
        connection.abort(f"rejected: {reason}")

    async def _is_empty_within(self, timeout_s: float) -> bool:
        try:
            await asyncio.wait_for(self._empty.wait(), timeout_s)
        except TimeoutError:
            return self._empty.is_set()
        return True

    # Listening

    async def _listen(self, listener: Listener, security: ListenerSecurity) -> Listener:
        # Every interface with a port of the system's choice: one family only, so that there is one port.
        host = listener.host or ("0.0.0.0" if listener.port == 0 else None)
        factory = functools.partial(Connection, self, listener.name, security)
        server: asyncio.Server | TlsListener
        if security.tls is None:
            server = await self.loop.create_server(
                factory, host, listener.port, backlog=BACKLOG, start_serving=False
            )
        else:
            turn_ms = functools.partial(self.turn_ms, listener.name)
            server = TlsListener(self.handshakes, factory, security, BACKLOG, turn_ms, self.throttle_ms)
            await server.bind(host, listener.port)
        self._servers.append(server)
        for sock in server.sockets:
            self._set_options(sock)
        port = server.sockets[0].getsockname()[1] if server.sockets else listener.port
        return replace(listener, port=port)

    def _set_options(self, sock: socket.socket) -> None:
        """Set the options that accepted sockets inherit."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        if self.limits.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
        if self.limits.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.receive_buffer_bytes)

    def _close_listeners(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _sweep_later(self) -> None:
        self._timer = self.loop.call_later(self.limits.sweep_interval_ms / 1000, self._sweep_again)

    def _sweep_again(self) -> None:
        try:
            self.sweep()
        finally:
            self._sweep_later()
