"""A TCP link between a client and a server that a test can cut, for real programs that know nothing of it.

async with Link(zookeeper.address) as link:
    ... connect to link.address ...
    link.cut()             # both directions are silent, as if the cable were out; new connections hang
    link.heal()            # broken connections end, new ones work
    link.lose_answers()    # what the client sends arrives, but nothing comes back, and the connection ends
"""

from __future__ import annotations

import asyncio
from typing import Self


class Link:
    """Passes bytes on, or not."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        self._open = asyncio.Event()
        self._open.set()
        self._losing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: list[asyncio.StreamWriter] = []
        self.answers_lost = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Let nothing through."""
        self._open.clear()

    def heal(self) -> None:
        """End the connections that were cut, and let everything through."""
        for task in tuple(self._tasks):
            task.cancel()
        self._open.set()

    def lose_answers(self) -> None:
        """Throw the next answer away and close the connection that it came on; then be a good link again."""
        self._losing = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        pumps: list[asyncio.Task[None]] = []
        try:
            await self._open.wait()
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            pumps = [
                asyncio.create_task(self._pump(reader, server_writer, is_answer=False)),
                asyncio.create_task(self._pump(server_reader, writer, is_answer=True)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            server_writer.close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for pump in pumps:
                pump.cancel()
            writer.close()
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._open.wait()
                if is_answer and self._losing:
                    self._losing = False
                    self.answers_lost += 1
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            return
