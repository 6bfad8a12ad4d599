"""What every store promises, tried on each of them (also on a real ZooKeeper, where there is one)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.waiting import until

from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.history import term_at
from ottla.metadata.image import EMPTY
from ottla.metadata.memory import MemoryStore
from ottla.metadata.records import ClusterCreated, Endpoint, MetadataError, ProducerIdsAllocated
from ottla.metadata.registration import BrokerRegistration, SessionInfo
from ottla.metadata.store import (
    ControllerFenced,
    MetadataEntry,
    MetadataStore,
    SessionLost,
    VersionConflict,
    fold,
)

ONE, TWO, THREE = (ProducerIdsAllocated(number) for number in (1, 2, 3))


@pytest.fixture(params=["memory", "embedded", "zookeeper"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    made: MetadataStore
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "embedded":
        made = EmbeddedStore(tmp_path / "metadata.db")
    else:
        made = request.getfixturevalue("zookeeper_store")()
    await made.open()
    yield made
    await made.close()


async def elected(store: MetadataStore) -> int:
    return await store.stand_for_election(await store.open_session(1))


async def test_entries_are_read_back_in_order_and_whole(store: MetadataStore) -> None:
    epoch = await elected(store)
    assert await store.read(0) == []
    assert await store.append([ONE, TWO], expected_version=0, controller_epoch=epoch) == 1
    assert await store.append([THREE], expected_version=1, controller_epoch=epoch) == 2
    assert await store.read(0) == [MetadataEntry(1, epoch, (ONE, TWO)), MetadataEntry(2, epoch, (THREE,))]
    assert await store.read(1) == [MetadataEntry(2, epoch, (THREE,))]
    assert await store.read(2) == []


@pytest.mark.parametrize("expected_version", [0, 2, 7])
async def test_an_append_decided_on_another_version_changes_nothing(
    store: MetadataStore, expected_version: int
) -> None:
    epoch = await elected(store)
    await store.append([ONE], expected_version=0, controller_epoch=epoch)
    with pytest.raises(VersionConflict):
        await store.append([TWO], expected_version=expected_version, controller_epoch=epoch)
    assert await store.read(0) == [MetadataEntry(1, epoch, (ONE,))]


async def test_of_appends_that_race_exactly_one_wins(store: MetadataStore) -> None:
    epoch = await elected(store)
    outcomes = await asyncio.gather(
        *(store.append([ONE], expected_version=0, controller_epoch=epoch) for _ in range(5)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in outcomes) == ["VersionConflict"] * 4 + ["int"]
    assert len(await store.read(0)) == 1


async def test_a_controller_that_was_replaced_is_fenced(store: MetadataStore) -> None:
    first = await store.open_session(1)
    old_epoch = await store.stand_for_election(first)
    await store.append([ONE], expected_version=0, controller_epoch=old_epoch)
    await store.resign(first)
    new_epoch = await elected(store)
    assert new_epoch > old_epoch
    with pytest.raises(ControllerFenced):
        await store.append([TWO], expected_version=1, controller_epoch=old_epoch)
    with pytest.raises(ControllerFenced):
        await store.compact(1, [ONE], controller_epoch=old_epoch)
    assert await store.append([THREE], expected_version=1, controller_epoch=new_epoch) == 2


async def test_every_controller_begins_a_term_with_its_first_entry(store: MetadataStore) -> None:
    session = await store.open_session(1)
    for start in (0, 2):
        epoch = await store.stand_for_election(session)
        for version in (start, start + 1):
            await store.append(
                [ProducerIdsAllocated(version + 1)], expected_version=version, controller_epoch=epoch
            )
        await store.resign(session)
    terms = await store.terms()
    if not isinstance(store, EmbeddedStore):
        assert [each.start_version for each in terms] == [1, 3]
        assert term_at(terms, 2) == terms[0]
        assert len({each.term_id for each in terms}) == 2


async def test_a_snapshot_takes_the_place_of_what_it_sums_up(store: MetadataStore) -> None:
    epoch = await elected(store)
    for version, record in enumerate([ClusterCreated("c"), ONE, TWO, THREE]):
        await store.append([record], expected_version=version, controller_epoch=epoch)
    full = fold(EMPTY, await store.read(0))
    image = fold(EMPTY, (await store.read(0))[:3])
    await store.compact(3, image.records(), controller_epoch=epoch)
    entries = await store.read(0)
    assert [(each.version, each.is_snapshot) for each in entries] == [(3, True), (4, False)]
    assert fold(EMPTY, entries) == full
    assert await store.append([ONE], expected_version=4, controller_epoch=epoch) == 5


async def test_a_reader_that_is_behind_a_snapshot_starts_again(store: MetadataStore) -> None:
    epoch = await elected(store)
    await store.append([ClusterCreated("c")], expected_version=0, controller_epoch=epoch)
    behind = fold(EMPTY, await store.read(0))
    await store.append([THREE], expected_version=1, controller_epoch=epoch)
    newest = fold(EMPTY, await store.read(0))
    await store.compact(2, newest.records(), controller_epoch=epoch)
    assert fold(behind, await store.read(behind.version)) == newest


async def test_watchers_hear_of_every_append_until_they_stop(store: MetadataStore) -> None:
    epoch = await elected(store)
    seen: list[int] = []
    stop = store.watch(seen.append)
    await store.append([ONE], expected_version=0, controller_epoch=epoch)
    with pytest.raises(VersionConflict):
        await store.append([TWO], expected_version=0, controller_epoch=epoch)
    await store.append([TWO], expected_version=1, controller_epoch=epoch)
    await until(lambda: 2 in seen)  # a store may also call without need, and once for several appends
    stop()
    await store.append([THREE], expected_version=2, controller_epoch=epoch)
    await store.read(0)
    assert seen == sorted(seen)
    assert seen[-1] == 2


async def test_each_session_has_a_greater_broker_epoch_and_ends_with_the_store(store: MetadataStore) -> None:
    first = await store.open_session(1)
    second = await store.open_session(1)
    assert second.broker_epoch > first.broker_epoch
    assert not second.lost.done()
    await store.close()
    assert second.lost.done()


async def test_everyone_sees_the_live_sessions_and_what_their_brokers_say(store: MetadataStore) -> None:
    assert await store.sessions() == []
    news: list[None] = []
    stop = store.watch_sessions(lambda: news.append(None))
    endpoint = Endpoint("PLAINTEXT", "10.0.0.1", 9092)
    starting = BrokerRegistration(rack="a", incarnation_id="i", directory_id="d")
    ready = replace(starting, endpoints=(endpoint,), after_unclean_stop=False)
    session = await store.open_session(7, starting)
    await until(lambda: bool(news))
    assert await store.sessions() == [SessionInfo(7, session.broker_epoch, starting)]
    news.clear()
    await store.update_registration(session, ready)
    await until(lambda: bool(news))
    stop()
    assert await store.sessions() == [SessionInfo(7, session.broker_epoch, ready)]
    again = await store.open_session(7, ready)
    assert session.lost.done()
    with pytest.raises(SessionLost):
        await store.update_registration(session, starting)
    assert await store.sessions() == [SessionInfo(7, again.broker_epoch, ready)]


async def test_a_controller_that_resigns_can_be_elected_again(store: MetadataStore) -> None:
    session = await store.open_session(1)
    epoch = await store.stand_for_election(session)
    await store.resign(session)
    assert await store.stand_for_election(session) > epoch


async def test_a_lost_session_hands_the_controller_over_to_the_next_candidate() -> None:
    store = MemoryStore()
    first, second, third = [await store.open_session(node_id) for node_id in (1, 2, 3)]
    assert await store.stand_for_election(first) == 1
    waiting = [asyncio.ensure_future(store.stand_for_election(each)) for each in (second, third)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    store.expire(second)
    store.expire(first)
    assert await waiting[1] == 2
    with pytest.raises(SessionLost):
        await waiting[0]
    with pytest.raises(ControllerFenced):
        await store.append([ONE], expected_version=0, controller_epoch=1)


def test_a_log_with_a_hole_is_refused() -> None:
    with pytest.raises(MetadataError, match="jumps from version 0 to 2"):
        fold(EMPTY, [MetadataEntry(2, 1, (ONE,))])
