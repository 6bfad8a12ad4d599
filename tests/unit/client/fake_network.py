"""Connections to brokers in memory, without sockets: transports that hand frames over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.unit.client.fake_broker import FakeBroker

from ottla.protocol.frames import SIZE


class FakeTransport(asyncio.Transport):
    """The client's end of a connection to a FakeBroker, or to raw bytes."""

    def __init__(
        self, protocol: asyncio.BufferedProtocol, answer: Callable[[memoryview], bytes | str | None]
    ) -> None:
        super().__init__()
        self._protocol = protocol
        self._answer = answer
        self._received = bytearray()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self._received += data
        while not self._closed and len(self._received) >= 4:
            size = SIZE.unpack_from(self._received)[0]
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            reply = self._answer(memoryview(frame))
            if reply == "drop":
                self.lose()
            elif isinstance(reply, bytes):
                half = len(reply) // 2  # replies come in pieces, as they do in life
                self._loop.call_soon(self._deliver, reply[:half])
                self._loop.call_soon(self._deliver, reply[half:])

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def _deliver(self, data: bytes) -> None:
        while data and not self._closed:
            buffer = self._protocol.get_buffer(len(data))
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self._protocol.buffer_updated(count)

    def lose(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._protocol.connection_lost, ConnectionResetError(104, "reset"))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.is_aborted = True
        self.close()

    def is_closing(self) -> bool:
        return self._closed


class FakeNetwork:
    """Who listens where."""

    def __init__(self) -> None:
        self.listening: dict[tuple[str, int], Callable[[memoryview], bytes | str | None]] = {}
        self.connections: list[FakeTransport] = []

    def start(self, broker: FakeBroker) -> FakeBroker:
        self.listening[broker.address] = broker.answer
        return broker

    def cut(self) -> None:
        for each in self.connections:
            each.lose()

    async def connect(self, factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int) -> Any:
        if (host, port) not in self.listening:
            raise ConnectionRefusedError(111, f"Connect call failed ({host!r}, {port})")
        protocol = factory()
        transport = FakeTransport(protocol, lambda frame: self.listening[host, port](frame))
        protocol.connection_made(transport)
        self.connections.append(transport)
        return transport, protocol
