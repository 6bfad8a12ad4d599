"""A connection that exceeds a quota is answered, and then not read for a time."""

from __future__ import annotations

import asyncio

from tests.unit.network.harness import ECHO, Harness, request, until

from ottla.security.address_quotas import AddressQuotas
from ottla.security.quota_entities import IP, QuotaEntity
from ottla.security.quota_rates import QuotaWindows

LONG_MS = 3_600_000


async def test_a_muted_connection_is_answered_but_not_read_until_the_time_is_over(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await client.send(request(ECHO, 1))
    assert await client.replies(1) == [1]
    muted = net.handler.connections[0]
    muted.mute(LONG_MS)
    await client.send(request(ECHO, 2) + request(ECHO, 3))
    await until(lambda: net.server.stats.waits == 1)
    await net.check_echo()
    assert net.handler.seen == [1, 77], "nothing is pending, and still it waits"
    muted._unmute()
    assert await client.replies(2) == [2, 3]


async def test_the_longest_of_several_times_counts(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await until(lambda: net.handler.connections)
    muted = net.handler.connections[0]
    muted.mute(1)
    muted.mute(LONG_MS)
    muted.mute(2)
    await client.send(request(ECHO, 1))
    await until(lambda: net.server.stats.waits == 1)
    await asyncio.sleep(0.01)  # the short times are over
    assert net.handler.seen == []
    muted._unmute()
    assert await client.replies(1) == [1]


async def test_the_end_of_the_time_is_noticed_without_new_bytes(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await until(lambda: net.handler.connections)
    net.handler.connections[0].mute(20)
    await client.send(request(ECHO, 1))
    assert await client.replies(1) == [1]
    net.handler.connections[0].mute(20)
    await until(lambda: net.handler.connections[0]._muting is None)
    await client.send(request(ECHO, 2))
    assert await client.replies(1) == [2]


async def test_a_muted_connection_is_not_idle(net: Harness) -> None:
    server = await net.serve(max_idle_ms=1000)
    client = await net.connect()
    await client.send(request(ECHO, 1))
    assert await client.replies(1) == [1]
    muted = net.handler.connections[0]
    muted.mute(LONG_MS)
    for _ in range(3):
        server.sweep()
        net.clock.advance(5_000)
    server.sweep()
    muted._unmute()
    await client.send(request(ECHO, 2))
    assert await client.replies(1) == [2]


async def test_a_muted_connection_that_is_lost_leaves_no_timer(net: Harness) -> None:
    await net.serve()
    client = await net.connect()
    await until(lambda: net.handler.connections)
    muted = net.handler.connections[0]
    muted.mute(LONG_MS)
    timer = muted._muting
    client.close()
    await until(lambda: net.handler.lost == [muted])
    assert timer is not None
    assert timer.cancelled()


async def test_a_server_that_stops_does_not_wait_for_muted_connections(net: Harness) -> None:
    server = await net.serve()
    client = await net.connect()
    await until(lambda: net.handler.connections)
    net.handler.connections[0].mute(LONG_MS)
    await server.stop(60)
    assert await client.is_closed()


async def test_connections_over_the_quota_of_their_address_are_closed_unserved_after_a_while(
    net: Harness,
) -> None:
    quotas: dict[QuotaEntity, dict[str, float]] = {((IP, None),): {"connection_creation_rate": 1.0}}
    server = await net.serve()
    server.address_quotas = AddressQuotas(quotas, QuotaWindows(3, 1000))
    for _ in range(3):
        await net.check_echo()
    refused = await net.connect()
    await refused.send(request(ECHO, 1))
    await until(lambda: server.stats.throttled == 1)
    assert await refused.is_closed()
    assert net.handler.seen == [77, 77, 77]
    assert server.stats.accepted == 3
    net.clock.advance(1_000)
    await net.check_echo()
