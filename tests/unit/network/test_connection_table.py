"""A full table of connections: clients are turned away, brokers have a reserve of their own."""

from __future__ import annotations

import pytest
from tests.unit.network.harness import BROKER, ECHO, Client, Harness, request, until


async def broker(net: Harness) -> Client:
    """Connect as another broker, which sends a request at once, and is answered."""
    client = await net.connect()
    await client.send(request(ECHO, 5, BROKER))
    assert await client.replies(1) == [5]
    return client


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip", "descriptor_connections"])
async def test_brokers_get_in_when_clients_have_taken_every_connection(net: Harness, limit: str) -> None:
    server = await net.serve(**{limit: 3, "broker_reserve": 2})
    for _ in range(3):
        await net.connect()
    await until(lambda: server.stats.connections == 3)
    first = await broker(net)
    refused = await net.connect()
    await refused.send(request(ECHO, 1))
    assert await refused.is_closed()
    await broker(net)
    assert await (await net.connect()).is_closed(), "the reserve is full"
    first.close()
    await until(lambda: server.stats.connections == 4)
    await broker(net)
    assert (server.stats.connections, server.stats.rejected) == (5, 2)


async def test_silent_connections_do_not_keep_brokers_out_of_their_reserve(
    net: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    server = await net.serve(max_connections=1, broker_reserve=3)
    await net.connect()
    await until(lambda: server.stats.connections == 1)
    silent = [await net.connect() for _ in range(60)]
    brokers = [await broker(net) for _ in range(3)]
    for each in silent:
        assert await each.is_closed()
    assert server.stats.rejected == 60
    assert len(caplog.records) == 20, "the log lines are bounded"
    for each in brokers:
        await each.send(request(ECHO, 6))
        assert await each.replies(1) == [6]


async def test_a_client_in_the_reserve_takes_the_place_of_one_that_left(net: Harness) -> None:
    server = await net.serve(max_connections=1, broker_reserve=1)
    first, second = await net.connect(), await net.connect()
    await until(lambda: server.stats.connections == 2)
    first.close()
    await until(lambda: server.stats.connections == 1)
    await second.send(request(ECHO, 1))
    assert await second.replies(1) == [1]
    third = await net.connect()
    await third.send(request(ECHO, 2))
    assert await third.is_closed()


async def test_a_connection_in_the_reserve_has_to_send_a_request_soon(net: Harness) -> None:
    server = await net.serve(max_connections=0, broker_reserve=5, first_request_ms=2_000)
    silent, partial, proven = await net.connect(), await net.connect(), await broker(net)
    await partial.send(request(ECHO, 1)[:9])
    await until(lambda: server.stats.connections == 3 and server.stats.bytes_in > 30)
    net.clock.advance(2_000)
    server.sweep()
    assert await silent.is_closed()
    assert await partial.is_closed()
    await proven.send(request(ECHO, 7))
    assert await proven.replies(1) == [7]
