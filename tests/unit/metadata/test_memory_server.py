"""The faults that simulations make in the store, and what brokers see of them."""

import asyncio
from dataclasses import replace

import pytest

from ottla.metadata.memory import MemoryServer, MemoryStore
from ottla.metadata.records import ProducerIdsAllocated
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store import NodeIdInUse, SessionLost, StoreUnavailable

ONE = ProducerIdsAllocated(1)
MINE = BrokerRegistration(incarnation_id="1", directory_id="disk")


async def test_a_broker_that_is_cut_loses_its_session_but_learns_it_when_it_is_healed() -> None:
    server = MemoryServer(session_timeout_s=0.02)
    one, two = MemoryStore(server, 1), MemoryStore(server, 2)
    first, second = await one.open_session(1), await two.open_session(2)
    assert await one.stand_for_election(first) == 1
    server.cut(1)
    assert await two.stand_for_election(second) == 2  # after the timeout
    assert [each.node_id for each in await two.sessions()] == [2]
    assert not first.lost.done()
    server.heal(1)
    assert first.lost.done()
    with pytest.raises(SessionLost):
        await one.stand_for_election(first)
    assert (await one.open_session(1)).broker_epoch > second.broker_epoch


async def test_a_short_cut_costs_nothing_but_time() -> None:
    server = MemoryServer(session_timeout_s=10)
    store = MemoryStore(server, 1)
    session = await store.open_session(1)
    epoch = await store.stand_for_election(session)
    seen: list[int] = []
    store.watch(seen.append)
    server.cut(1)
    appending = asyncio.ensure_future(store.append([ONE], expected_version=0, controller_epoch=epoch))
    await asyncio.sleep(0)
    assert not appending.done()
    server.heal(1)
    assert await appending == 1
    assert seen[-1] == 1
    assert not session.lost.done()


async def test_calls_give_up_when_the_cut_lasts() -> None:
    server = MemoryServer(session_timeout_s=0.01)
    store = MemoryStore(server, 1)
    server.cut(1)
    with pytest.raises(StoreUnavailable):
        await store.read(0)


async def test_an_append_can_happen_without_an_answer() -> None:
    server = MemoryServer()
    store = MemoryStore(server, 1)
    epoch = await store.stand_for_election(await store.open_session(1))
    server.lose_responses(1)
    with pytest.raises(StoreUnavailable):
        await store.append([ONE], expected_version=0, controller_epoch=epoch)
    server.lose_responses(1, False)
    assert [each.version for each in await store.read(0)] == [1]


async def test_latency_holds_up_calls_and_notices() -> None:
    server = MemoryServer()
    store = MemoryStore(server, 1)
    epoch = await store.stand_for_election(await store.open_session(1))
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    store.watch(told.set_result)
    server.latency = lambda: 0.005
    await store.append([ONE], expected_version=0, controller_epoch=epoch)
    assert not told.done()
    assert await told == 1


async def test_only_a_fresh_process_on_the_same_disk_takes_over_a_session() -> None:
    server = MemoryServer()
    dead, restarted, stranger = (MemoryStore(server, 1) for _ in range(3))
    first = await dead.open_session(1, MINE)
    second = await restarted.open_session(1, replace(MINE, incarnation_id="2"))
    assert first.lost.done()
    with pytest.raises(NodeIdInUse):
        await dead.open_session(1, MINE)
    with pytest.raises(NodeIdInUse):
        await stranger.open_session(1, BrokerRegistration(incarnation_id="3", directory_id="other"))
    assert not second.lost.done()


async def test_a_candidate_that_gives_up_leaves_the_office_to_others() -> None:
    server = MemoryServer()
    one, two, three = (MemoryStore(server, node_id) for node_id in (1, 2, 3))
    sessions = [await store.open_session(at) for at, store in enumerate((one, two, three), 1)]
    await one.stand_for_election(sessions[0])
    gives_up = asyncio.ensure_future(two.stand_for_election(sessions[1]))
    waits = asyncio.ensure_future(three.stand_for_election(sessions[2]))
    await asyncio.sleep(0)
    gives_up.cancel()
    await one.resign(sessions[0])
    assert await waits > 1
    assert server.controller is sessions[2]
