import asyncio

import pytest

from ottla.client.client_options import ClientOptions
from ottla.client.errors import BrokerUnreachable, ClientClosed
from ottla.protocol.api_keys import ApiKey
from ottla.wire.address import Address
from ottla.wire.backoff import Backoff
from ottla.wire.connection_pool import ConnectionPool


async def test_one_connection_is_shared_by_all_who_ask(peer, network):
    connections = ConnectionPool(ClientOptions().pool())
    found = await asyncio.gather(*(connections.get(peer.address) for _ in range(10)))
    assert len({id(each) for each in found}) == len(network.connections) == 1
    await connections.close()


async def test_a_broker_that_refused_is_left_alone_for_a_while(network):
    attempts = []

    async def refuse(factory, host, port):
        attempts.append(host)
        raise ConnectionRefusedError(111, "refused")

    network.connect = refuse
    connections = ConnectionPool(
        ClientOptions(reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000).pool()
    )
    for _ in range(5):
        with pytest.raises(BrokerUnreachable, match="connection refused"):
            await connections.get(Address("gone", 1))
    assert attempts == ["gone"]


async def test_a_broker_that_returns_is_found_after_the_pause(peer, network):
    answer = network.listening.pop(peer.address)
    connections = ConnectionPool(ClientOptions(reconnect_backoff_ms=1, reconnect_backoff_max_ms=2).pool())
    with pytest.raises(BrokerUnreachable):
        await connections.get(peer.address)
    network.listening[peer.address] = answer
    async with asyncio.timeout(5):
        while True:
            try:
                connection = await connections.get(peer.address)
                break
            except BrokerUnreachable:
                await asyncio.sleep(0.001)
    assert connection.is_open
    await connections.close()


async def test_an_idle_connection_is_replaced_before_it_is_used_again(peer, network):
    connections = ConnectionPool(ClientOptions(connections_max_idle_ms=1).pool())
    first = await connections.get(peer.address)
    await asyncio.sleep(0.005)
    second = await connections.get(peer.address)
    assert not first.is_open
    assert second.is_open
    await connections.close()


async def test_the_broker_with_the_fewest_requests_in_flight_is_asked(peer, network):
    other = type(peer)(2, Address("other", 1))
    network.start(other)
    connections = ConnectionPool(ClientOptions().pool())
    hanging = await connections.get(peer.address)
    idle = await connections.get(other.address)
    peer.fail(ApiKey.METADATA, "silent")
    reply = hanging.send(ApiKey.METADATA, 1, [b"\0\0\0\0"], 60_000)
    assert connections.least_busy() is idle
    reply.cancel()
    await connections.close()


async def test_after_closing_nothing_is_opened(peer):
    connections = ConnectionPool(ClientOptions().pool())
    await connections.close()
    with pytest.raises(ClientClosed):
        await connections.get(peer.address)


async def test_a_broker_that_hangs_up_in_the_handshake_makes_one_think_of_the_protocol(peer):
    peer.fail(ApiKey.API_VERSIONS, "drop")
    with pytest.raises(
        BrokerUnreachable, match=r"during the handshake \(if that stays so: is security_protocol"
    ):
        await ConnectionPool(ClientOptions().pool()).get(peer.address)


async def test_a_broker_that_says_nothing_in_the_handshake_is_not_waited_for(peer):
    peer.fail(ApiKey.API_VERSIONS, "silent")
    with pytest.raises(BrokerUnreachable, match=r"no answer within 0\.02 s"):
        await ConnectionPool(ClientOptions(socket_connection_setup_timeout_ms=20).pool()).get(peer.address)


def test_pauses_double_up_to_the_longest_and_are_spread():
    backoff = Backoff(100, 1_000)
    for failures, middle in ((1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (500, 1_000)):
        pauses = [backoff.pause_ms(failures) for _ in range(200)]
        assert middle * 0.8 <= min(pauses) < middle < max(pauses) <= middle * 1.2
