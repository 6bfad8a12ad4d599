"""One end of a simulated connection, as asyncio's protocols see it; see sim_network.py."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ottla.testing.simulation.network import SimNetwork

END = b""
"""In the line of what arrives: the peer has closed."""


class SimTransport(asyncio.Transport):
    """Sends to `peer`, its other end. Everything it calls, it calls in the process that owns it."""

    peer: SimTransport

    def __init__(
        self,
        network: SimNetwork,
        context: contextvars.Context,
        here: tuple[str, int],
        there: tuple[str, int],
    ) -> None:
        super().__init__({"peername": there, "sockname": here})
        self.here, self.there = here[0], there[0]
        self._network = network
        self._loop = network.loop
        self._context = context
        self._protocol: asyncio.BaseProtocol | None = None
        self._is_closing = False
        self._is_gone = False  # nothing answers here any more
        self._is_paused = False
        self._arrived: deque[bytes] = deque()
        self._stopped: deque[bytes] = deque()  # on their way to us when the link was cut
        self._last_at = 0.0  # when the last bytes that we sent arrive
        self._gives_up = False

    # Beginning and end

    def begin(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        """Make the protocol of the side that listens."""
        if not self._is_gone:
            self.attach(factory())

    def attach(self, protocol: asyncio.BaseProtocol) -> None:
        """Start to deliver to `protocol`."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._deliver()

    def vanish(self) -> None:
        """The process is dead: nothing runs here, and the peer hears of it as soon as it can."""
        self._is_gone = self._is_closing = True
        self._network.connections.pop(self, None)
        self._send(END)

    def reset(self, code: int) -> None:
        """End both ends, each when it hears of it."""
        self._lose(OSError(code, os.strerror(code)))
        self._send(END)

    def try_again(self) -> None:
        """The link may work again: send what was held back, or fail if the peer is gone."""
        if self._stopped and not self._network.is_cut(self.there, self.here):
            waiting, self._stopped = self._stopped, deque()
            at = max(self._loop.now + self._network.delay() * 20, self.peer._last_at)
            for data in waiting:
                self.peer._last_at = at = at + 1e-6
                self._loop.call_at(at, self._arrive, data, context=self._context)
        if self.peer._is_gone and not self._is_closing and END not in self._arrived:
            self.peer._send(END)

    def _lose(self, error: Exception | None) -> None:
        """Close this end; the protocol is notified later."""
        if self._is_gone:
            return
        self._is_gone = self._is_closing = True
        self._network.connections.pop(self, None)
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)

    # Sending

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if not self._is_closing and data:
            self._send(bytes(data))

    def _send(self, data: bytes) -> None:
        network, peer = self._network, self.peer
        self._last_at = max(self._last_at + 1e-6, self._loop.now + network.delay())
        # The bytes travel on their own, whatever becomes of the process that sent them.
        self._loop.call_at(self._last_at, peer._arrive, data, context=peer._context)
        if network.is_cut(self.here, self.there) and not self._gives_up:
            self._gives_up = True
            self._loop.call_later(network.give_up_after(), self._give_up, context=self._context)

    def _give_up(self) -> None:
        """Nothing has been acknowledged for long."""
        self._gives_up = False
        if self._network.is_cut(self.here, self.there):
            self._lose(OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    # Receiving

    def _arrive(self, data: bytes) -> None:
        if self._is_gone:
            if data is not END and not self.peer._is_gone:
                self._send(END)  # as a host does that knows no such connection
            return
        if self._stopped or self._network.is_cut(self.there, self.here):
            self._stopped.append(data)
            return
        self._network.delivered(self, data)
        self._arrived.append(data)
        self._deliver()

    def _deliver(self) -> None:
        protocol, arrived = self._protocol, self._arrived
        while arrived and not self._is_paused and not self._is_closing and protocol is not None:
            data = arrived.popleft()
            if data is END:
                self._lose(None)
                return
            try:
                if isinstance(protocol, asyncio.BufferedProtocol):
                    self._fill(protocol, data)
                else:
                    cast("asyncio.Protocol", protocol).data_received(data)
            except Exception as error:
                message = f"{type(protocol).__name__} failed to take {len(data)} bytes"
                self._loop.call_exception_handler({"message": message, "exception": error})
                self.abort()

    def _fill(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._is_closing:
            if self._is_paused:
                self._arrived.appendleft(bytes(rest))
                return
            buffer = memoryview(protocol.get_buffer(len(rest)))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            rest = rest[size:]
            protocol.buffer_updated(size)

    # What asyncio's transports do

    def close(self) -> None:
        """Close; what was written arrives first."""
        if not self._is_closing:
            self._is_closing = True
            self._send(END)
            self._lose(None)

    abort = close

    def is_closing(self) -> bool:
        """Return whether the transport is closed, or about to be."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Keep what arrives."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Deliver what arrived, and what will."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._deliver, context=self._context)

    def is_reading(self) -> bool:
        """Return whether what arrives is delivered."""
        return not self._is_paused

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives the data."""
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Replace the protocol."""
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The network takes everything at once."""

    def get_write_buffer_size(self) -> int:
        """Return 0: see above."""
        return 0

    def can_write_eof(self) -> bool:
        """Return False."""
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the addresses; there is no socket."""
        return super().get_extra_info(name, default)
