"""Accept connections on TLS listeners, with a limited number of handshakes at a time.

A handshake costs about a millisecond of the processor, and the peer decides when it continues. So only some
are in flight on all listeners together; the next peers wait in a queue that is fair between addresses. While
others wait, a handshake that takes longer than two seconds is cut off, and one of an address that holds many
places gives way to another address after a quarter of a second. Where connections are accepted at a rate, the
next one waits for its turn before its handshake; one over the quota of its address gets none.

asyncio's own servers would begin every handshake at once, with one permanent TLS context; here the listener's
current context is used, so certificates can change.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any

from ottla.common.clock import Clock
from ottla.common.listeners import network_of
from ottla.network.handshake_queue import HandshakeQueue, WaitingPeer
from ottla.network.limits import NetworkLimits, NetworkStats
from ottla.network.listener_security import ListenerSecurity
from ottla.network.peer_log import PeerLog

Factory = Callable[[], asyncio.BaseProtocol]

ACCEPTS_PER_ITERATION = 16
CROWDED_CHECK_S = 0.1
"""How often handshakes that take too long are looked for while others wait."""
GREEDY_MS = 250
"""How long a handshake of an address with many may take while another address waits."""
GREEDY_PART = 4
"""An address has many if it holds one of so many parts of the places."""
MAX_UNSERVED = 500
"""How many connections over the quota of their address are kept open for a while."""
RETRY_S = 1.0
"""How long to wait after the system had no descriptor left."""
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOT_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL"}
    | {"RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)


class TlsHandshakes:
    """The handshakes in flight of all TLS listeners of a server, and the peers that wait for theirs."""

    def __init__(self, clock: Clock, log: PeerLog, stats: NetworkStats, limits: NetworkLimits) -> None:
        self.log = log
        self._clock = clock
        self._stats = stats
        self._limits = limits
        self._running: dict[asyncio.Task[None], WaitingPeer] = {}  # in the order of their start
        self._per_host: dict[str, int] = {}
        self._queue = HandshakeQueue(self._begin_next, self._refuse)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def in_flight(self) -> int:
        """The number of handshakes in flight."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of peers whose handshake has not begun."""
        return len(self._queue)

    def change_limits(self, limits: NetworkLimits) -> None:
        """Apply other limits; handshakes in flight keep their time."""
        self._limits = limits
        self._begin_next()

    def start(self, sock: socket.socket, address: Any, factory: Factory, security: ListenerSecurity) -> None:
        """Do the handshake of an accepted connection; then it is served by what `factory` returns."""

        def begin() -> None:
            tls = security.tls
            assert tls is not None
            task = asyncio.get_running_loop().create_task(self._shake_hands(peer, factory, tls))
            peer.since_ms = self._clock.mono_ms()
            self._running[task] = peer
            self._per_host[peer.host] = self._per_host.get(peer.host, 0) + 1
            task.add_done_callback(self._done)

        host, name = network_of(address[0]), f"{address[0]}:{address[1]}"
        peer = WaitingPeer(sock, host, name, self._clock.mono_ms(), begin)
        self._queue.add(peer, self._limits.waiting_handshakes)

    def evict_slow(self) -> None:
        """Close silent peers; while others wait for their turn, cut off the handshakes that take too long."""
        now_ms = self._clock.mono_ms()
        self._queue.drop_silent(now_ms - self._limits.handshake_ms)
        if not self._is_full or not self._queue.has_ready:
            return
        latest_ms = now_ms - self._limits.crowded_handshake_ms
        for task, peer in list(self._running.items()):
            if peer.since_ms > latest_ms:
                break
            task.cancel()
        self._evict_greedy(now_ms - GREEDY_MS)

    def stop(self) -> None:
        """Cut off all handshakes."""
        if self._timer is not None:
            self._timer.cancel()
        self._queue.close()
        for task in list(self._running):
            task.cancel()

    @property
    def _is_full(self) -> bool:
        return len(self._running) >= self._limits.handshakes

    def _begin_next(self) -> None:
        """Begin the handshakes whose turn it is; look again soon if some must wait."""
        while not self._is_full and (host := self._queue.next_host(self._in_flight_of)) is not None:
            self._queue.pop(host).begin()
        if self._queue.has_ready and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CROWDED_CHECK_S, self._check_crowd)

    def _check_crowd(self) -> None:
        self._timer = None
        self.evict_slow()
        self._begin_next()

    def _in_flight_of(self, host: str) -> int:
        return self._per_host.get(host, 0)

    def _evict_greedy(self, latest_ms: int) -> None:
        """Cut off the oldest handshake of an address that has many, for one that waits and has far fewer."""
        waiting = self._queue.next_host(self._in_flight_of)
        greedy = max(self._per_host, key=self._in_flight_of, default=None)
        if waiting is None or greedy is None:
            return
        most = self._per_host[greedy]
        if most * GREEDY_PART < self._limits.handshakes or most <= 2 * self._in_flight_of(waiting) + 1:
            return
        for task, peer in self._running.items():
            if peer.host == greedy:
                if peer.since_ms <= latest_ms:
                    task.cancel()
                return

    async def _shake_hands(self, peer: WaitingPeer, factory: Factory, tls: ssl.SSLContext) -> None:
        timeout_s = self._limits.handshake_ms / 1000
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                factory, peer.sock, ssl=tls, ssl_handshake_timeout=timeout_s
            )
        except asyncio.CancelledError:
            self._refuse(peer, "TLS handshake failed: it took too long while others wait")
            raise
        except OSError as error:  # of which ssl.SSLError is a subclass
            self._refuse(peer, why_failed(error))
        else:
            self._stats.handshakes += 1

    def _refuse(self, peer: WaitingPeer, reason: str) -> None:
        self._stats.failed_handshakes += 1
        self.log.warning(peer.name, f"closed: {reason}")
        peer.sock.close()

    def _done(self, task: asyncio.Task[None]) -> None:
        host = self._running.pop(task).host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        self._begin_next()


class TlsListener:
    """The sockets of one listener, with the methods of `asyncio.Server` that are used."""

    def __init__(
        self,
        handshakes: TlsHandshakes,
        factory: Factory,
        security: ListenerSecurity,
        backlog: int,
        turn_ms: Callable[[], int] = lambda: 0,
        throttle_ms: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self._handshakes = handshakes
        self._factory = factory
        self._security = security
        self._backlog = backlog
        self._turn_ms = turn_ms
        self._throttle_ms = throttle_ms
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self.sockets: list[socket.socket] = []

    async def bind(self, host: str | None, port: int) -> None:
        """Bind a port on every address of `host`, or raise OSError."""
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self._bind(family, kind, protocol, address)
        except BaseException:
            self.close()
            raise

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        for sock in self.sockets:
            sock.listen(self._backlog)
            self._watch(sock)

    def close(self) -> None:
        """Accept no more."""
        self._is_closed = True
        for sock in self.sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self.sockets.clear()
        for accepted, timer in self._waiting.items():
            timer.cancel()
            accepted.close()
        self._waiting.clear()

    def _bind(self, family: int, kind: int, protocol: int, address: object) -> None:
        sock = socket.socket(family, kind, protocol)
        self.sockets.append(sock)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)  # type: ignore[arg-type]

    def _watch(self, sock: socket.socket) -> None:
        if not self._is_closed:
            self._loop.add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_ITERATION):
            if self._is_closed:
                return
            try:
                accepted, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR:
                    raise
                self._handshakes.log.warning("", f"cannot accept connections: {error.strerror}")
                self._loop.remove_reader(sock)
                self._loop.call_later(RETRY_S, self._watch, sock)
                return
            accepted.setblocking(False)
            if throttle_ms := self._throttle_ms(address[0]):
                self._close_later(accepted, throttle_ms)
                continue
            wait_ms = self._turn_ms()
            if wait_ms:
                self._wait(sock, accepted, address, wait_ms)
                return
            self._start(accepted, address)

    def _wait(self, sock: socket.socket, accepted: socket.socket, address: Any, wait_ms: int) -> None:
        """Accept nothing until it is the turn of an accepted connection; the backlog holds the others."""

        def begin() -> None:
            del self._waiting[accepted]
            self._start(accepted, address)
            self._watch(sock)

        self._loop.remove_reader(sock)
        self._waiting[accepted] = self._loop.call_later(wait_ms / 1000, begin)

    def _close_later(self, accepted: socket.socket, delay_ms: int) -> None:
        """Close a connection that is not served after a time, so that its client does not retry at once."""

        def close() -> None:
            del self._waiting[accepted]
            accepted.close()

        if len(self._waiting) >= MAX_UNSERVED:
            accepted.close()
        else:
            self._waiting[accepted] = self._loop.call_later(delay_ms / 1000, close)

    def _start(self, accepted: socket.socket, address: Any) -> None:
        self._handshakes.start(accepted, address, self._factory, self._security)


def why_failed(error: OSError) -> str:
    """Return the reason of a failed handshake, and what to look at."""
    reason = getattr(error, "reason", None) or ""
    if reason in _NOT_TLS:
        return "the client does not speak TLS, and this listener does: set its security.protocol to another"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "TLS handshake failed: the client has no certificate, and ssl.client.auth=required"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS handshake failed: the client's certificate is not accepted ({error.verify_message})"
    if reason:
        return f"TLS handshake failed: {reason.lower().replace('_', ' ')}"
    if isinstance(error, (TimeoutError, ConnectionAbortedError)):
        return "TLS handshake failed: it took too long"
    return "TLS handshake failed: the client disconnected"
