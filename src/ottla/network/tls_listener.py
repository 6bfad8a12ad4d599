"""Accept connections on TLS listeners, with a limited number of handshakes at a time.

A handshake costs about a millisecond of the processor, and the peer decides when it continues. So only some
are in flight on all listeners together; while they are, nothing is accepted, and the system's backlog holds
the next peers. A handshake that takes longer than two seconds is cut off while the limit is reached: silent
peers cannot keep everyone else out. Where connections are accepted at a rate, the next one waits for its turn
before its handshake.

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
from ottla.network.limits import NetworkLimits, NetworkStats
from ottla.network.listener_security import ListenerSecurity
from ottla.network.peer_log import PeerLog

Factory = Callable[[], asyncio.BaseProtocol]

ACCEPTS_PER_ITERATION = 16
RETRY_S = 1.0
"""How long to wait after the system had no descriptor left."""
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOT_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL"}
    | {"RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)


class TlsHandshakes:
    """The handshakes in flight of all TLS listeners of a server."""

    def __init__(self, clock: Clock, log: PeerLog, stats: NetworkStats, limits: NetworkLimits) -> None:
        self.log = log
        self._clock = clock
        self._stats = stats
        self._limits = limits
        self._running: dict[asyncio.Task[None], tuple[socket.socket, int]] = {}
        self._blocked: list[Callable[[], None]] = []

    @property
    def in_flight(self) -> int:
        """The number of handshakes in flight."""
        return len(self._running)

    def change_limits(self, limits: NetworkLimits) -> None:
        """Apply other limits; handshakes in flight keep their time."""
        self._limits = limits
        if not self.is_full:
            self._unblock()

    @property
    def is_full(self) -> bool:
        """Whether no more may begin now."""
        return len(self._running) >= self._limits.handshakes

    def when_free(self, accept: Callable[[], None]) -> None:
        """Call `accept` when another handshake may begin."""
        self._blocked.append(accept)
        self.evict_slow()

    def start(self, sock: socket.socket, peer: str, factory: Factory, tls: ssl.SSLContext) -> None:
        """Do the handshake of an accepted connection; then it is served by what `factory` returns."""
        task = asyncio.get_running_loop().create_task(self._shake_hands(sock, peer, factory, tls))
        self._running[task] = (sock, self._clock.mono_ms())
        task.add_done_callback(self._done)

    def evict_slow(self) -> None:
        """While no other can begin, cut off the handshakes that take too long."""
        if not self.is_full:
            return
        latest_ms = self._clock.mono_ms() - self._limits.crowded_handshake_ms
        for task, (_, since_ms) in list(self._running.items()):
            if since_ms > latest_ms:
                break  # they are in the order of their start
            task.cancel()

    def stop(self) -> None:
        """Cut off all handshakes."""
        self._blocked.clear()
        for task in list(self._running):
            task.cancel()

    async def _shake_hands(
        self, sock: socket.socket, peer: str, factory: Factory, tls: ssl.SSLContext
    ) -> None:
        timeout_s = self._limits.handshake_ms / 1000
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                factory, sock, ssl=tls, ssl_handshake_timeout=timeout_s
            )
        except asyncio.CancelledError:
            self._failed(sock, peer, "TLS handshake failed: it took too long while others wait")
            raise
        except OSError as error:  # of which ssl.SSLError is a subclass
            self._failed(sock, peer, why_failed(error))
        else:
            self._stats.handshakes += 1

    def _failed(self, sock: socket.socket, peer: str, reason: str) -> None:
        self._stats.failed_handshakes += 1
        self.log.warning(peer, f"closed: {reason}")
        sock.close()

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._unblock()

    def _unblock(self) -> None:
        blocked, self._blocked = self._blocked, []
        for accept in blocked:
            accept()


class TlsListener:
    """The sockets of one listener, with the methods of `asyncio.Server` that are used."""

    def __init__(
        self,
        handshakes: TlsHandshakes,
        factory: Factory,
        security: ListenerSecurity,
        backlog: int,
        turn_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._handshakes = handshakes
        self._factory = factory
        self._security = security
        self._backlog = backlog
        self._turn_ms = turn_ms
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
            if self._handshakes.is_full:
                self._loop.remove_reader(sock)
                self._handshakes.when_free(lambda: self._watch(sock))
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

    def _start(self, accepted: socket.socket, address: Any) -> None:
        tls = self._security.tls
        assert tls is not None
        self._handshakes.start(accepted, f"{address[0]}:{address[1]}", self._factory, tls)


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
