"""A server with a scripted handler, and clients on raw sockets that read only when told to."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import tempfile
from collections.abc import Awaitable

from tests.waiting import until as until

from ottla.common.clock import ManualClock
from ottla.common.file_range import FileRange
from ottla.common.listeners import Listener
from ottla.network.connection import Connection
from ottla.network.handler import Reply
from ottla.network.limits import NetworkLimits
from ottla.network.listener_security import PLAINTEXT, ListenerSecurity
from ottla.network.server import Server
from ottla.protocol.errors import InvalidRequest

# What the scripted handler does with a request, by its API key.
PRODUCE = 0  # overlapping; parked until the test answers
ECHO = 1
SILENT = 2
PARKED = 3  # not overlapping; parked until the test answers
PRODUCE_NOW = 4  # overlapping; answered at once
FILE = 5  # answered with the handler's `chunks`
BROKEN = 6
BROKEN_LATER = 7
GOODBYE = 8  # answered, then closed
SWALLOW = 9  # the frame is kept in `kept`, answered with its size
BIG = 10  # answered with 32 KiB
WRONG = 11  # a mistake of the peer
BROKER = b"from a broker"  # the payload of a broker's request
DEADLINE_S = 10.0


def request(api_key: int, correlation_id: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">ihhi", 8 + len(payload), api_key, 0, correlation_id) + payload


def reply(correlation_id: int, payload: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(payload), correlation_id) + payload


class ScriptedHandler:
    """Answers by API key and remembers what it saw."""

    def __init__(self) -> None:
        self.limit = 16 << 20
        self.seen: list[int] = []
        self.parked: dict[int, asyncio.Future[Reply | None]] = {}
        self.kept: list[memoryview] = []
        self.chunks: list[bytes | memoryview | FileRange] = []
        self.connections: list[Connection] = []
        self.lost: list[Connection] = []

    def frame_limit(self, connection: Connection, api_key: int) -> int:
        return self.limit

    def may_overlap(self, api_key: int) -> bool:
        return api_key in (PRODUCE, PRODUCE_NOW)

    def is_from_broker(self, connection: Connection, frame: memoryview) -> bool | None:
        return bytes(frame[8:]) == BROKER

    def connection_made(self, connection: Connection) -> None:
        self.connections.append(connection)

    def connection_lost(self, connection: Connection) -> None:
        self.lost.append(connection)

    def handle(self, connection: Connection, frame: memoryview) -> Reply | Awaitable[Reply | None] | None:
        api_key, _, correlation_id = struct.unpack_from(">hhi", frame)
        self.seen.append(correlation_id)
        if api_key in (PRODUCE, PARKED):
            future = asyncio.get_running_loop().create_future()
            self.parked[correlation_id] = future
            return future
        if api_key == SWALLOW:
            self.kept.append(frame)
            return reply(correlation_id, struct.pack(">i", len(frame)))
        if api_key == SILENT:
            return None
        if api_key == FILE:
            size = sum(chunk.size if isinstance(chunk, FileRange) else len(chunk) for chunk in self.chunks)
            return [struct.pack(">ii", 4 + size, correlation_id), *self.chunks]
        if api_key == BROKEN:
            raise RuntimeError("a bug")
        if api_key == WRONG:
            raise InvalidRequest("nonsense")
        if api_key == BROKEN_LATER:
            return self._fail()
        if api_key == GOODBYE:
            connection.close("said goodbye")
        if api_key == BIG:
            return reply(correlation_id, bytes(32 << 10))
        return reply(correlation_id, bytes(frame[8:]))

    async def _fail(self) -> Reply:
        raise RuntimeError("a bug, later")

    def answer(self, correlation_id: int, payload: bytes = b"") -> None:
        self.parked.pop(correlation_id).set_result(reply(correlation_id, payload))


class Client:
    """A peer that does nothing by itself."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.name = "{}:{}".format(*sock.getsockname())
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes | memoryview) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self._loop.sock_sendall(self.sock, data)

    async def receive(self, size: int) -> bytes:
        received = bytearray()
        async with asyncio.timeout(DEADLINE_S):
            while len(received) < size:
                data = await self._loop.sock_recv(self.sock, min(size - len(received), 1 << 20))
                if not data:
                    raise EOFError(f"closed after {len(received)} of {size} bytes")
                received += data
        return bytes(received)

    async def reply(self) -> tuple[int, bytes]:
        size, correlation_id = struct.unpack(">ii", await self.receive(8))
        return correlation_id, await self.receive(size - 4)

    async def replies(self, count: int) -> list[int]:
        return [(await self.reply())[0] for _ in range(count)]

    async def is_closed(self) -> bool:
        """Wait until the server closes; replies that come before are dropped."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while await self._loop.sock_recv(self.sock, 64 << 10):
                    pass
        except ConnectionError:
            pass
        return True

    def flood(self, data: bytes, sent: int = 0) -> int:
        """Send `data` again and again until the socket takes no more; `sent` and the result count bytes."""
        while True:
            try:
                sent += self.sock.send(data[sent % len(data) :])
            except BlockingIOError:
                return sent

    def close(self) -> None:
        self.sock.close()


class Harness:
    """Starts a server, connects clients, and closes all of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.handler = ScriptedHandler()
        self._clients: list[Client] = []
        self._servers: list[Server] = []

    @property
    def server(self) -> Server:
        return self._servers[-1]

    async def serve(self, security: ListenerSecurity = PLAINTEXT, **limits: int) -> Server:
        """Start a server whose sweeps are the test's own."""
        server = Server(self.handler, NetworkLimits(**{"sweep_interval_ms": 10**9, **limits}), self.clock)
        self._servers.append(server)
        await server.bind(Listener("PLAINTEXT", "127.0.0.1", 0), security)
        await server.serve()
        return server

    async def connect(self, receive_buffer_bytes: int = 0) -> Client:
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.server.listeners[0].port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._clients.append(Client(sock))
        return self._clients[-1]

    async def check_echo(self) -> None:
        """Be a new client that is served as if it were alone."""
        client = await self.connect()
        await client.send(request(ECHO, 77, b"still here"))
        assert await client.reply() == (77, b"still here")
        client.close()

    async def close(self) -> None:
        for client in self._clients:
            client.close()
        for server in self._servers:
            await server.stop(0)


class DiskFile:
    """A real file with random bytes."""

    def __init__(self, size: int) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self.content = os.urandom(size)
        self._file.write(self.content)
        self._file.flush()
        self.reads = 0
        self.copied_bytes = 0

    def fileno(self) -> int:
        return self._file.fileno()

    def read_at(self, position: int, size: int) -> bytes:
        self.reads += 1
        self.copied_bytes += size
        return os.pread(self.fileno(), size, position)


class MemoryFile(DiskFile):
    """The same without a descriptor."""

    def fileno(self) -> int:
        return -1

    def read_at(self, position: int, size: int) -> bytes:
        self.reads += 1
        self.copied_bytes += size
        return self.content[position : position + size]
