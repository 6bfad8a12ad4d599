"""Bytes between simulated hosts: late, stopped, and lost with their connection, but never out of order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.testing.simulation.loop import SimLoop, SimProcess
from ottla.testing.simulation.network import SimNetwork

Main = Callable[["World"], Awaitable[None]]


class Collector(asyncio.Protocol):
    """Keeps what arrives, and how it ended."""

    def __init__(self) -> None:
        self.received = b""
        self.ended: list[Exception | None] = []
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(exc)


class World:
    """A server on host s and a client on host c, connected."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimLoop(seed)
        self.network = SimNetwork(self.loop)
        self.server_process = SimProcess(self.loop, "s")
        self.client_process = SimProcess(self.loop, "c")
        self.at_server = Collector()
        self.at_client = Collector()

    async def connect(self) -> asyncio.Transport:
        async def serve() -> None:
            server = await self.loop.create_server(lambda: self.at_server, "s", 1)
            await server.start_serving()

        async def open_connection() -> None:
            await self.loop.create_connection(lambda: self.at_client, "s", 1)

        await self.server_process.spawn(serve())
        await self.client_process.spawn(open_connection())
        assert self.at_client.transport is not None
        return self.at_client.transport


def play(main: Main) -> World:
    world = World()
    world.loop.run(main(world))
    world.loop.close()
    assert world.loop.problems == []
    return world


def test_bytes_arrive_late_and_in_order() -> None:
    async def main(world: World) -> None:
        transport = await world.connect()
        for number in range(50):
            transport.write(bytes([number]))
        assert world.at_server.received == b""
        await asyncio.sleep(1)

    assert play(main).at_server.received == bytes(range(50))


def test_connecting_fails_without_a_listener_and_over_a_cut_link() -> None:
    async def main(world: World) -> None:
        with pytest.raises(ConnectionRefusedError):
            await world.loop.create_connection(Collector, "s", 1)
        world.network.cut("test", "s")
        with pytest.raises(TimeoutError):
            await world.loop.create_connection(Collector, "s", 1)

    play(main)


def test_a_cut_stops_bytes_one_way_and_healing_lets_them_continue() -> None:
    async def main(world: World) -> None:
        transport = await world.connect()
        world.network.cut("c", "s", one_way=True)
        transport.write(b"up")
        assert world.at_server.transport is not None
        world.at_server.transport.write(b"down")
        await asyncio.sleep(0.5)
        assert (world.at_server.received, world.at_client.received) == (b"", b"down")
        world.network.heal()
        transport.write(b"after")
        await asyncio.sleep(1)
        assert world.at_server.received == b"upafter"

    play(main)


def test_a_sender_that_is_cut_off_for_long_gives_up() -> None:
    async def main(world: World) -> None:
        transport = await world.connect()
        world.network.cut("c", "s")
        transport.write(b"lost")
        await asyncio.sleep(20)
        assert len(world.at_client.ended) == 1
        assert isinstance(world.at_client.ended[0], TimeoutError)
        assert world.at_server.ended == []  # it has heard of nothing
        world.network.heal()
        await asyncio.sleep(1)
        assert len(world.at_server.ended) == 1

    play(main)


def test_the_peer_of_a_killed_process_hears_of_it_after_what_was_sent() -> None:
    async def main(world: World) -> None:
        transport = await world.connect()
        transport.write(b"last words")
        world.client_process.kill()
        world.network.host_is_gone("c")
        await asyncio.sleep(1)
        assert world.at_server.received == b"last words"
        assert world.at_server.ended == [None]
        assert world.at_client.ended == []

    play(main)


def test_the_peer_of_a_host_without_power_hears_of_it_when_the_host_is_back() -> None:
    async def main(world: World) -> None:
        await world.connect()
        world.client_process.kill()
        world.network.host_is_gone("c", silently=True)
        await asyncio.sleep(20)
        assert world.at_server.ended == []
        world.network.host_is_back("c")
        await asyncio.sleep(1)
        assert world.at_server.ended == [None]

    play(main)


def test_a_reset_ends_both_sides() -> None:
    async def main(world: World) -> None:
        await world.connect()
        world.network.reset_some(2.0)
        await asyncio.sleep(1)
        assert len(world.at_client.ended) == len(world.at_server.ended) == 1

    play(main)


def test_a_reader_that_pauses_gets_it_all_later() -> None:
    async def main(world: World) -> None:
        transport = await world.connect()
        assert world.at_server.transport is not None
        world.at_server.transport.pause_reading()
        transport.write(b"later")
        await asyncio.sleep(1)
        assert world.at_server.received == b""
        world.at_server.transport.resume_reading()
        await asyncio.sleep(1)
        assert world.at_server.received == b"later"

    play(main)


def test_what_is_sent_to_a_paused_process_waits_there() -> None:
    async def main(world: World) -> None:
        transport = await world.connect()
        world.server_process.pause()
        transport.write(b"wake up")
        await asyncio.sleep(5)
        assert world.at_server.received == b""
        world.server_process.resume()
        await asyncio.sleep(1)
        assert world.at_server.received == b"wake up"

    play(main)
