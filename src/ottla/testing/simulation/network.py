"""Simulated hosts and connections: slow, cut in one or both directions, reset.

A connection carries bytes in order, each direction with its own delays. The failures are those of TCP:
nothing is lost or reordered within a live connection, but it may stall and it may end.

    network.cut("b1", "b2")          bytes from b1 to b2 stop on their way; those from b2 to b1 arrive
    network.heal("b1", "b2")         they arrive after all, unless one side has given up
    network.reset_some(0.5)          half of the connections end; bytes in flight may or may not arrive
    network.host_is_gone("b1")       its connections end (a process died), or stall (a power failure)

The clients of a simulation run on hosts of their own, so that they can be cut off, too.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.testing.simulation.loop import PROCESS, SimLoop
from ottla.testing.simulation.transport import SimTransport

Factory = Callable[[], asyncio.BaseProtocol]

DELAY_S = (0.0002, 0.004)
CONNECT_TIMEOUT_S = 3.0
GIVE_UP_S = (1.0, 6.0)
"""After how long without an acknowledgement a sender gives a connection up."""


@dataclass
class _Listener:
    factory: Factory
    context: contextvars.Context
    accepts: bool = False


class SimServer:
    """What `create_server` returns."""

    sockets: tuple[Any, ...] = ()

    def __init__(self, network: SimNetwork, key: tuple[str, int]) -> None:
        self._network = network
        self._key = key

    async def start_serving(self) -> None:
        """Accept connections."""
        self._network.listeners[self._key].accepts = True

    def close(self) -> None:
        """Listen no more."""
        self._network.listeners.pop(self._key, None)

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._key in self._network.listeners


class SimNetwork:
    """All hosts, listeners and connections of one simulation."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        loop.network = self
        self.listeners: dict[tuple[str, int], _Listener] = {}
        self.connections: dict[SimTransport, None] = {}
        """Both ends of each, until they are closed."""
        self.trace = 0
        """A checksum of everything that was delivered, and when."""
        self.delay_s = DELAY_S
        self._cuts: dict[tuple[str, str], None] = {}
        self._hosts_down: dict[str, None] = {}
        self._ports = 40_000

    # Faults

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether bytes from `source` do not reach `target` now."""
        if (source, target) in self._cuts:
            return True
        return bool(self._hosts_down) and (source in self._hosts_down or target in self._hosts_down)

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Let no bytes through from `source` to `target`, nor back unless `one_way`."""
        self._cuts[source, target] = None
        if not one_way:
            self._cuts[target, source] = None

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Let bytes through again, everywhere or between two hosts."""
        if source is None or target is None:
            self._cuts.clear()
        else:
            self._cuts.pop((source, target), None)
            self._cuts.pop((target, source), None)
        for each in list(self.connections):
            each.try_again()

    def reset_some(self, share: float, host: str | None = None) -> None:
        """End connections in the middle of what they do."""
        for each in list(self.connections):
            if host in (None, each.here, each.there) and self.loop.chance.random() < share / 2:
                each.reset(errno.ECONNRESET)

    def host_is_gone(self, host: str, *, silently: bool = False) -> None:
        """The process on `host` is dead; after a power failure its peers notice when the host is back."""
        for key in [key for key in self.listeners if key[0] == host]:
            del self.listeners[key]
        if silently:
            self._hosts_down[host] = None
        for each in [each for each in self.connections if each.here == host]:
            each.vanish()

    def host_is_back(self, host: str) -> None:
        """The host has power again, and answers for what it no longer knows."""
        self._hosts_down.pop(host, None)
        for each in list(self.connections):
            each.try_again()

    # What the loop asks for

    def listen(self, factory: Factory, host: str, port: int) -> SimServer:
        """Take a port."""
        if (host, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.listeners[host, port] = _Listener(factory, contextvars.copy_context())
        return SimServer(self, (host, port))

    async def connect(
        self, factory: Factory, host: str, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        """Open a connection from the host of the process that runs now."""
        process = PROCESS.get()
        here = process.host if process is not None else "test"
        await asyncio.sleep(self.delay())
        if self.is_cut(here, host) or self.is_cut(host, here):
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        listener = self.listeners.get((host, port))
        if listener is None or not listener.accepts:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self._ports += 1
        near = SimTransport(self, contextvars.copy_context(), (here, self._ports), (host, port))
        far = SimTransport(self, listener.context, (host, port), (here, self._ports))
        near.peer, far.peer = far, near
        self.connections[near] = self.connections[far] = None
        self.loop.call_soon(far.begin, listener.factory, context=listener.context)
        await asyncio.sleep(self.delay())
        protocol = factory()
        near.attach(protocol)
        return near, protocol

    # For transports

    def delay(self) -> float:
        """Return how long the next bytes take."""
        return self.loop.chance.uniform(*self.delay_s)

    def give_up_after(self) -> float:
        """Return how long a sender waits for an acknowledgement."""
        return self.loop.chance.uniform(*GIVE_UP_S)

    def delivered(self, transport: SimTransport, data: bytes) -> None:
        """Take note of bytes that arrive."""
        where = f"{self.loop.now:.9f} {transport.there} {transport.here}"
        self.trace = zlib.crc32(data, zlib.crc32(where.encode(), self.trace))
