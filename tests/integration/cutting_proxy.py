"""A TCP proxy in front of a broker that cuts connections at the worst moment.

It forwards whole frames. When the broker answers a Produce request and a cut is due, the answer is thrown
away and both sides are closed: the broker has the records, the producer does not know.

Clients must come back through the proxy, so it puts its own port wherever an answer names the broker's
`host, port` (a string and the int32 after it, in every version of Metadata and its relatives). Both are four
bytes, so no length changes.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from typing import Self

PRODUCE = 0


class CuttingProxy:
    """Cuts instead of passing on the answer to a Produce request, whenever `cut_when(nth_answer)` says so."""

    def __init__(self, broker_address: str, cut_when: Callable[[int], bool]) -> None:
        self._host, port = broker_address.rsplit(":", 1)
        self._port = int(port)
        self._cut_when = cut_when
        self.answers = 0  # to Produce requests, passed on or thrown away
        self.cuts = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cutting proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        own_port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{own_port}"
        host = self._host.encode()
        self._named, self._renamed = (host + struct.pack(">i", port) for port in (self._port, own_port))

    async def _stop(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        broker_in, broker_out = await asyncio.open_connection(self._host, self._port)
        produces: set[int] = set()  # correlation ids of the Produce requests under way
        pumps = {
            asyncio.create_task(self._pass_requests(client_in, broker_out, produces)),
            asyncio.create_task(self._pass_answers(broker_in, client_out, produces)),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            client_out.close()
            broker_out.close()

    async def _pass_requests(
        self, client_in: asyncio.StreamReader, broker_out: asyncio.StreamWriter, produces: set[int]
    ) -> None:
        while True:
            frame = await read_frame(client_in)
            api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
            if api_key == PRODUCE:
                produces.add(correlation_id)
            broker_out.write(frame)
            await broker_out.drain()

    async def _pass_answers(
        self, broker_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, produces: set[int]
    ) -> None:
        while True:
            frame = await read_frame(broker_in)
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            if correlation_id in produces:
                produces.remove(correlation_id)
                self.answers += 1
                if self._cut_when(self.answers):
                    self.cuts += 1
                    return
            client_out.write(frame.replace(self._named, self._renamed))
            await client_out.drain()


async def read_frame(stream: asyncio.StreamReader) -> bytes:
    """Read one frame, its size prefix included."""
    prefix = await stream.readexactly(4)
    return prefix + await stream.readexactly(int.from_bytes(prefix, "big"))
