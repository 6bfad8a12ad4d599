"""A TCP proxy in front of a broker that sees whole frames: a base for proxies that do harm.

Clients must come back through the proxy, so it puts its own port wherever an answer names the broker's
`host, port` (a string and the int32 after it, in every version of Metadata and its relatives). Both are four
bytes, so no length changes.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import Self

from tests.loop_thread import LoopThread, cancel_others


class Cut(Exception):
    """Raised by a hook: drop this frame and close both sides."""


@dataclass(frozen=True)
class Call:
    """A request on its way, with its frame (the size in front included)."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes


class FrameProxy:
    """Passes frames on, each after its hook: `on_request` and `on_answer`, run in the proxy's own thread."""

    def __init__(self, broker_address: str) -> None:
        self._host, port = broker_address.rsplit(":", 1)
        self._port = int(port)
        self._loop_thread = LoopThread(type(self).__name__)

    async def on_request(self, call: Call) -> bool:
        """Return whether to pass a request on; Cut closes the connection instead."""
        return True

    async def on_answer(self, call: Call, answer: bytes) -> None:
        """See the answer to a request before the client does; Cut closes the connection instead."""

    def __enter__(self) -> Self:
        self._loop_thread.start()
        self._loop_thread.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop_thread.run(self._stop())
        self._loop_thread.stop()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        own_port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{own_port}"
        host = self._host.encode()
        self._named, self._renamed = (host + struct.pack(">i", port) for port in (self._port, own_port))

    async def _stop(self) -> None:
        self._server.close()
        await cancel_others()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        try:
            broker_in, broker_out = await asyncio.open_connection(self._host, self._port)
        except OSError:
            client_out.close()
            return
        calls: dict[int, Call] = {}  # requests in flight, by correlation id
        pumps = {
            asyncio.create_task(self._pass_requests(client_in, broker_out, calls)),
            asyncio.create_task(self._pass_answers(broker_in, client_out, calls)),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # the proxy is closed; asyncio's streams cannot do with cancelled handlers
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            client_out.close()
            broker_out.close()

    async def _pass_requests(
        self, client_in: asyncio.StreamReader, broker_out: asyncio.StreamWriter, calls: dict[int, Call]
    ) -> None:
        while True:
            frame = await read_frame(client_in)
            call = Call(*struct.unpack_from(">hhi", frame, 4), frame)
            if await self.on_request(call):
                calls[call.correlation_id] = call
                broker_out.write(frame)
                await broker_out.drain()

    async def _pass_answers(
        self, broker_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, calls: dict[int, Call]
    ) -> None:
        while True:
            frame = await read_frame(broker_in)
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            await self.on_answer(calls.pop(correlation_id), frame)
            client_out.write(frame.replace(self._named, self._renamed))
            await client_out.drain()


async def read_frame(stream: asyncio.StreamReader) -> bytes:
    """Read one frame, its size prefix included."""
    prefix = await stream.readexactly(4)
    return prefix + await stream.readexactly(int.from_bytes(prefix, "big"))
