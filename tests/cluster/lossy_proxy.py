"""A TCP proxy in front of every broker that delays chunks, and loses some as TCP shows it: they come late.

    with LossyProxies(weather, targets={1: "127.0.0.1:9092"}) as proxies:
        proxies.address(1)                 # what broker 1 advertises
        weather.loss = 0.05                # 5 % of the chunks arrive a retransmission later
        proxies.reset_all()                # every connection breaks

Below TCP a lost packet costs time, never bytes: the sender waits for its retransmission timer (200 ms and
more), and all that was sent behind it waits as well. So chunks stay in order here, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tests.loop_thread import LoopThread, cancel_others

CHUNK_BYTES = 1 << 16


@dataclass
class Weather:
    """How bad the links are; may be changed at any time."""

    delay_ms: tuple[float, float] = (0.0, 0.0)
    """The least and the most that a chunk is delayed."""
    loss: float = 0.0
    """The share of chunks that are lost once."""
    retransmission_ms: tuple[float, float] = (200.0, 600.0)


class LossyProxies:
    """One proxy for each target, on ports that the system picks, all in one thread."""

    def __init__(self, weather: Weather, targets: Mapping[int, str], seed: int) -> None:
        self.weather = weather
        self.lost = 0
        """How many chunks were late by a retransmission."""
        self._targets = dict(targets)
        self._choose = random.Random(seed)
        self._addresses: dict[int, str] = {}
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._loop_thread = LoopThread("lossy-proxies")

    def address(self, number: int) -> str:
        """Return where a target is reached through its proxy."""
        return self._addresses[number]

    def reset_all(self) -> None:
        """Break every connection."""
        self._loop_thread.post(self._reset)

    def _reset(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    def __enter__(self) -> Self:
        self._loop_thread.start()
        self._loop_thread.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop_thread.run(self._stop())
        self._loop_thread.stop()

    async def _start(self) -> None:
        for number, target in self._targets.items():

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str = target
            ) -> None:
                await self._serve(reader, writer, target)

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self._servers.append(server)
            self._addresses[number] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        self._reset()
        await cancel_others()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
        host, _, port = target.rpartition(":")
        try:
            from_broker, to_broker = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, to_broker}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, to_broker))
                both.create_task(self._pass_on(from_broker, writer))
        finally:
            self._open -= {writer, to_broker}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if (wait_ms := self._wait_ms()) > 0:
                    await asyncio.sleep(wait_ms / 1000)
                writer.write(chunk)
                await writer.drain()
        writer.transport.abort()

    def _wait_ms(self) -> float:
        wait_ms = self._choose.uniform(*self.weather.delay_ms)
        if self._choose.random() < self.weather.loss:
            self.lost += 1
            wait_ms += self._choose.uniform(*self.weather.retransmission_ms)
        return wait_ms
