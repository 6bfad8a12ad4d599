"""A broker's image follows the metadata log, whoever appends to it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ottla.metadata import state
from ottla.metadata.image import ClusterImage
from ottla.metadata.memory import MemoryServer, MemoryStore
from ottla.metadata.records import ClusterCreated, ControllerElected, ProducerIdsAllocated
from ottla.metadata.state import ClusterState, MetadataFollower
from ottla.metadata.store import StoreRolledBack


class Bench:
    """A follower, and another broker that appends."""

    def __init__(self) -> None:
        self.server = MemoryServer(session_timeout_s=0.02)
        self.writer = MemoryStore(self.server, 1)
        self.state = ClusterState()
        self.follower = MetadataFollower(MemoryStore(self.server, 2), self.state)

    async def start(self) -> None:
        session = await self.writer.open_session(1)
        self.epoch = await self.writer.stand_for_election(session)
        self.follower.start()

    async def become_controller(self) -> None:
        session = await self.writer.open_session(1)
        self.epoch = await self.writer.stand_for_election(session)
        await self.writer.append(
            [ControllerElected(1, self.epoch)],
            expected_version=self.server.version,
            controller_epoch=self.epoch,
        )

    async def append(self, number: int) -> int:
        return await self.writer.append(
            [ProducerIdsAllocated(number)],
            expected_version=self.server.version,
            controller_epoch=self.epoch,
        )

    async def sees(self, number: int) -> None:
        async with asyncio.timeout(5):
            await self.state.wait_until(lambda image: image.next_producer_id == number)


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(state, "RETRY_S", 0.005)
    made = Bench()
    await made.start()
    yield made
    await made.follower.stop()


async def test_what_others_append_is_published_in_order(bench: Bench) -> None:
    seen: list[int] = []
    bench.state.subscribe(lambda _, new: seen.append(new.version))
    for number in range(1, 6):
        await bench.append(number)
        await bench.sees(number)
    assert seen == [1, 2, 3, 4, 5]


async def test_what_this_broker_appended_is_not_read_again(bench: Bench) -> None:
    records = [ClusterCreated("c")]
    version = await bench.writer.append(records, expected_version=0, controller_epoch=bench.epoch)
    await bench.follower.publish_appended(records, version)
    assert bench.state.image.cluster_id == "c"
    await bench.follower.publish_appended(records, version)  # also not taken twice
    assert bench.state.image.version == 1


async def test_what_came_in_between_is_read(bench: Bench) -> None:
    await bench.append(1)
    version = await bench.append(2)
    await bench.follower.publish_appended([ProducerIdsAllocated(2)], version)
    assert bench.state.image.next_producer_id == 2


async def test_a_store_that_cannot_be_reached_is_asked_again(bench: Bench) -> None:
    bench.server.cut(2)
    await bench.append(1)
    reading = asyncio.ensure_future(bench.follower.catch_up())
    await asyncio.wait([reading])
    assert reading.exception() is not None
    bench.server.heal(2)
    await bench.sees(1)


async def test_a_subscriber_sees_what_is_there_and_misses_nothing(bench: Bench) -> None:
    await bench.append(1)
    await bench.sees(1)
    seen: list[tuple[int, int]] = []
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def slow(old: ClusterImage, new: ClusterImage) -> None:
        begun.set()
        await may_go_on.wait()
        seen.append((old.version, new.version))

    subscribing = asyncio.ensure_future(bench.follower.subscribe(slow))
    await begun.wait()
    await bench.append(2)  # while the subscriber still looks at the first image
    may_go_on.set()
    unsubscribe = await subscribing
    await bench.sees(2)
    assert seen == [(0, 1), (1, 2)]
    unsubscribe()
    await bench.append(3)
    await bench.sees(3)
    assert len(seen) == 2


async def test_a_snapshot_replaces_what_a_reader_missed(bench: Bench) -> None:
    bench.server.cut(2)
    for number in range(1, 4):
        await bench.append(number)
    image = ClusterImage().apply([ProducerIdsAllocated(3)], 3)
    await bench.writer.compact(3, image.records(), controller_epoch=bench.epoch)
    bench.server.heal(2)
    await bench.sees(3)
    assert bench.state.image.version == 3


async def test_a_store_that_went_back_is_refused_until_the_newest_state_is_there_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "ROLLED_BACK_RETRY_S", 0.005)
    refused = asyncio.Event()
    bench.follower.on_rolled_back = refused.set
    await bench.append(1)
    old = bench.server.snapshot()
    await bench.append(2)
    await bench.sees(2)
    newest = bench.server.snapshot()
    bench.server.restore(old)
    async with asyncio.timeout(5):
        await refused.wait()
    assert bench.follower.rolled_back is not None
    assert (bench.follower.rolled_back.applied, bench.follower.rolled_back.found) == (2, 1)
    assert bench.state.image.version == 2
    with pytest.raises(StoreRolledBack, match="ottla cluster rebuild"):
        await bench.follower.verify()
    published: asyncio.Queue[int] = asyncio.Queue()
    bench.state.subscribe(lambda _, new: published.put_nowait(new.version))
    bench.server.restore(newest)
    async with asyncio.timeout(5):
        assert await published.get() == 2  # again, so that the broker leads again
    assert bench.follower.rolled_back is None


async def test_a_longer_history_that_replaced_the_store_meanwhile_is_not_applied(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "ROLLED_BACK_RETRY_S", 0.005)
    await bench.become_controller()
    await bench.append(1)
    await bench.sees(1)
    newest = bench.server.snapshot()
    foreign = Bench()
    session = await foreign.writer.open_session(1)
    foreign.epoch = await foreign.writer.stand_for_election(session)
    for number in range(50, 60):
        await foreign.append(number)
    refused = asyncio.Event()
    bench.follower.on_rolled_back = refused.set
    bench.server.cut(2)
    bench.server.restore(foreign.server.snapshot())
    bench.server.heal(2)
    async with asyncio.timeout(5):
        await refused.wait()
    assert bench.state.image.next_producer_id == 1
    published = asyncio.Event()
    bench.state.subscribe(lambda _, __: published.set())
    bench.server.restore(newest)
    async with asyncio.timeout(5):
        await published.wait()
    assert bench.follower.rolled_back is None
    assert bench.follower.behind_ms == 0, "the versions of the other store count no more"
    await bench.become_controller()
    await bench.append(3)
    await bench.sees(3)


async def test_another_history_of_the_same_length_is_refused(bench: Bench) -> None:
    await bench.append(1)
    old = bench.server.snapshot()
    await bench.append(2)
    await bench.append(3)
    await bench.sees(3)
    bench.server.restore(old)
    session = await bench.writer.open_session(1)
    bench.epoch = await bench.writer.stand_for_election(session)
    for number in (7, 8, 9):
        await bench.append(number)
    with pytest.raises(StoreRolledBack, match="another history"):
        await bench.follower.verify()
    assert bench.state.image.next_producer_id == 3


async def test_another_history_is_refused_though_its_entries_are_compacted(bench: Bench) -> None:
    await bench.become_controller()
    old = bench.server.snapshot()
    await bench.become_controller()
    await bench.append(5)
    await bench.sees(5)
    assert [bench.follower.term_at(version) for version in (1, 3)] == list(bench.server.terms)
    bench.server.restore(old)
    await bench.become_controller()
    for number in (6, 7):
        await bench.append(number)
    await bench.writer.compact(4, [ProducerIdsAllocated(7)], controller_epoch=bench.epoch)
    with pytest.raises(StoreRolledBack, match="another history"):
        await bench.follower.verify()
    assert bench.state.image.next_producer_id == 5
