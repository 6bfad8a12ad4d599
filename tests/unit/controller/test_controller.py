import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.common.clock import ManualClock
from ottla.common.config.broker import BrokerConfig
from ottla.controller import writer
from ottla.controller.machine import ConfigAlteration, ConfigChange, NewPartitions, NewTopic, TopicSelector
from ottla.controller.runner import Controller
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.metadata.memory import MemoryStore
from ottla.metadata.records import (
    ConfigResource,
    Endpoint,
    MetadataError,
    MetadataRecord,
    ProducerIdsAllocated,
)
from ottla.metadata.state import ClusterState
from ottla.metadata.store import MetadataStore
from ottla.protocol.errors import (
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    KafkaStorageError,
    NotController,
    PolicyViolation,
    RequestTimedOut,
    TopicAlreadyExists,
)

CONFIG = BrokerConfig({"node.id": "1"})
HERE = Endpoint("PLAINTEXT", "127.0.0.1", 9092)


class Bench:
    """One controller with what it needs."""

    def __init__(self, store: MetadataStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.state = ClusterState()
        self.clock = ManualClock()
        self.controller = Controller(self.store, self.state, self.clock, 1, lambda: CONFIG)

    async def __aenter__(self) -> "Bench":
        await self.controller.start(directory_ids=["d"])
        await self.controller.register_broker([HERE])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.controller.stop()

    @property
    def image(self) -> ClusterImage:
        return self.state.image

    async def create_topic(self, name: str) -> TopicImage:
        (made,) = await self.controller.create_topics([NewTopic(name)])
        if isinstance(made, KafkaError):
            raise made
        return made


class FailingStore(MemoryStore):
    """Fails appends on demand: before they happen, or after."""

    def __init__(self) -> None:
        super().__init__()
        self.fail_before = False
        self.fail_after = False

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        if self.fail_before:
            raise MetadataError("the disk is full")
        version = await super().append(
            records, expected_version=expected_version, controller_epoch=controller_epoch
        )
        if self.fail_after:
            raise MetadataError("the disk is gone")
        return version


def names(results: Sequence[TopicImage | KafkaError]) -> list[str]:
    return [each.name if isinstance(each, TopicImage) else type(each).__name__ for each in results]


async def test_a_started_controller_has_a_cluster_and_leads_it() -> None:
    async with Bench() as bench:
        assert len(bench.image.cluster_id) == 22
        assert bench.image.controller_id == 1
        assert bench.image.brokers[1].endpoint("PLAINTEXT") == HERE


async def test_topics_configs_ids_and_producer_ids_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    async with Bench(EmbeddedStore(path)) as bench:
        await bench.controller.create_topics([NewTopic("orders", 3, configs=(("retention.ms", "5"),))])
        alteration = ConfigAlteration(ConfigResource.BROKER, "1", (ConfigChange("log.retention.ms", "6"),))
        assert await bench.controller.active_controller.alter_configs([alteration]) == [None]
        assert await bench.controller.allocate_producer_ids(10) == range(10)
        before = bench.image
    async with Bench(EmbeddedStore(path)) as bench:
        after = bench.image
        assert after.cluster_id == before.cluster_id
        assert after.topics["orders"].topic_id == before.topics["orders"].topic_id
        assert after.configs == before.configs
        assert after.controller_epoch > before.controller_epoch
        assert after.brokers[1].epoch > before.brokers[1].epoch
        assert await bench.controller.allocate_producer_ids(10) == range(10, 20)


async def test_leader_epochs_grow_after_an_unclean_stop_only(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    async with Bench(EmbeddedStore(path)) as bench:
        await bench.controller.create_topics([NewTopic("orders", 2)])
    for after_unclean_stop, expected in ((False, [0, 0]), (True, [1, 1]), (False, [1, 1])):
        bench = Bench(EmbeddedStore(path))
        await bench.controller.start(directory_ids=["d"])
        await bench.controller.register_broker([HERE], after_unclean_stop=after_unclean_stop)
        assert [each.leader_epoch for each in bench.image.topics["orders"].partitions] == expected
        await bench.controller.stop()


async def test_logs_without_their_metadata_are_not_served(tmp_path: Path) -> None:
    bench = Bench(EmbeddedStore(tmp_path / "metadata.db"))
    with pytest.raises(MetadataError, match="logs belong to cluster lost, whose metadata is missing"):
        await bench.controller.start("lost")
    async with Bench(EmbeddedStore(tmp_path / "metadata.db")) as fresh:
        cluster_id = fresh.image.cluster_id
    again = Bench(EmbeddedStore(tmp_path / "metadata.db"))
    with pytest.raises(MetadataError, match=f"cluster lost, the metadata to cluster {cluster_id}"):
        await again.controller.start("lost")
    right = Bench(EmbeddedStore(tmp_path / "metadata.db"))
    await right.controller.start(cluster_id)
    await right.controller.stop()


async def test_a_change_is_answered_once_the_subscribers_have_followed() -> None:
    async with Bench() as bench:
        opened: list[str] = []

        async def open_logs(old: ClusterImage, new: ClusterImage) -> None:
            await asyncio.sleep(0)
            opened.extend(new.topics.keys() - old.topics.keys())

        bench.state.subscribe(open_logs)
        await bench.controller.create_topics([NewTopic("orders")])
        assert opened == ["orders"]


async def test_every_topic_of_a_request_is_answered_in_its_place() -> None:
    async with Bench() as bench:
        await bench.create_topic("old")
        results = await bench.controller.create_topics(
            [NewTopic("twice"), NewTopic("new"), NewTopic("old"), NewTopic("twice"), NewTopic("b a d")]
        )
        assert names(results) == [
            "InvalidRequest",
            "new",
            "TopicAlreadyExists",
            "InvalidRequest",
            "InvalidTopicException",
        ]
        assert sorted(bench.image.topics) == ["new", "old"]


async def test_validating_only_tells_the_same_and_changes_nothing() -> None:
    topics = [NewTopic(f"t{number}") for number in range(120)]
    topics += [NewTopic("a.b"), *(NewTopic(f"u{number}") for number in range(120)), NewTopic("a_b")]
    async with Bench() as bench:
        before = bench.image
        validated = await bench.controller.create_topics(topics, validate_only=True)
        assert bench.image is before
        created = await bench.controller.create_topics(topics)
        assert names(validated) == names(created)
        assert isinstance(created[-1], InvalidTopicException)
        grown = [NewPartitions("t1", 5), NewPartitions("nothing", 5)]
        before = bench.image
        assert names(
            await bench.controller.active_controller.create_partitions(grown, validate_only=True)
        ) == [
            "t1",
            "UnknownTopicOrPartition",
        ]
        bad = ConfigAlteration(ConfigResource.TOPIC, "t1", (ConfigChange("retention.ms", "x"),))
        good = ConfigAlteration(ConfigResource.TOPIC, "t2", (ConfigChange("retention.ms", "5"),))
        errors = await bench.controller.active_controller.alter_configs([bad, good], validate_only=True)
        assert [each is None for each in errors] == [False, True]
        assert bench.image is before


async def test_a_request_for_thousands_of_topics_lets_others_work_in_between() -> None:
    async with Bench() as bench:
        others = 0

        async def someone_else() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(someone_else())
        results = await bench.controller.create_topics([NewTopic(f"t{number}", 2) for number in range(1000)])
        turns, others = others, 0
        await bench.controller.create_topics(
            [NewTopic(f"u{number}") for number in range(1000)], validate_only=True
        )
        task.cancel()
        assert len(bench.image.topics) == len(results) == 1000
        assert turns >= 20
        assert others >= 20


async def test_what_has_not_begun_in_time_has_timed_out() -> None:
    async with Bench() as bench:
        bench.state.subscribe(lambda _old, _new: bench.clock.advance(100))
        results = await bench.controller.create_topics(
            [NewTopic(f"t{number}") for number in range(200)], timeout_ms=150
        )
        assert [type(each) for each in results] == [TopicImage] * 100 + [RequestTimedOut] * 100
        assert len(bench.image.topics) == 100


async def test_a_topic_is_created_once_however_many_ask_for_it_at_once() -> None:
    async with Bench() as bench:
        outcomes = await asyncio.gather(
            *(bench.create_topic("orders") for _ in range(20)), return_exceptions=True
        )
        assert sum(isinstance(each, TopicImage) for each in outcomes) == 1
        assert sum(isinstance(each, TopicAlreadyExists) for each in outcomes) == 19


async def test_a_client_that_goes_away_leaves_nothing_half_done() -> None:
    async with Bench() as bench:
        asking = asyncio.ensure_future(bench.controller.create_topics([NewTopic("orders", 2)]))
        await asyncio.sleep(0)
        asking.cancel()
        await bench.controller.create_topics([NewTopic("users")])
        assert list(bench.image.topics) in (["users"], ["orders", "users"])
        entries = await bench.store.read(0)
        assert entries[-1].version == bench.image.version


async def test_topics_are_deleted_by_name_and_id_and_can_be_made_again() -> None:
    async with Bench() as bench:
        first = await bench.create_topic("orders")
        await bench.create_topic("users")
        deleted = await bench.controller.active_controller.delete_topics(
            [TopicSelector(topic_id=first.topic_id), TopicSelector("users"), TopicSelector("nothing")]
        )
        assert names(deleted) == ["orders", "users", "UnknownTopicOrPartition"]
        assert (await bench.create_topic("orders")).topic_id != first.topic_id


async def test_topics_grow() -> None:
    async with Bench() as bench:
        await bench.controller.create_topics([NewTopic("orders", 2)])
        results = await bench.controller.active_controller.create_partitions([NewPartitions("orders", 5)])
        assert results == [bench.image.topics["orders"]]
        assert len(bench.image.topics["orders"].partitions) == 5
        (refused,) = await bench.controller.active_controller.create_partitions(
            [NewPartitions("orders", 100_000)]
        )
        assert isinstance(refused, PolicyViolation)


async def test_configs_are_changed_and_replaced() -> None:
    async with Bench() as bench:
        await bench.controller.create_topics([NewTopic("orders", configs=(("retention.ms", "5"),))])
        alteration = ConfigAlteration(
            ConfigResource.TOPIC, "orders", (ConfigChange("max.message.bytes", "9"),)
        )
        assert await bench.controller.active_controller.alter_configs([alteration]) == [None]
        assert bench.image.topic_overrides("orders") == {"retention.ms": "5", "max.message.bytes": "9"}
        assert await bench.controller.active_controller.alter_configs([alteration], replacing=True) == [None]
        assert bench.image.topic_overrides("orders") == {"max.message.bytes": "9"}
        twice = await bench.controller.active_controller.alter_configs([alteration, alteration])
        assert [type(each) for each in twice] == [InvalidRequest, InvalidRequest]


async def test_a_failed_append_is_reported_to_the_client_and_the_next_change_works() -> None:
    store = FailingStore()
    async with Bench(store) as bench:
        store.fail_before = True
        with pytest.raises(KafkaStorageError, match="the disk is full"):
            await bench.create_topic("orders")
        assert "orders" not in bench.image.topics
        store.fail_before = False
        await bench.create_topic("orders")
        assert "orders" in bench.image.topics


async def test_after_an_append_of_unknown_outcome_the_log_is_read_again() -> None:
    store = FailingStore()
    async with Bench(store) as bench:
        store.fail_after = True
        with pytest.raises(KafkaStorageError):
            await bench.create_topic("orders")
        store.fail_after = False
        with pytest.raises(TopicAlreadyExists):
            await bench.create_topic("orders")
        assert bench.image.version == (await store.read(0))[-1].version


async def test_a_change_that_lost_a_race_is_decided_again_on_the_newer_image() -> None:
    async with Bench() as bench:
        await bench.store.append(
            [ProducerIdsAllocated(500)],
            expected_version=bench.image.version,
            controller_epoch=bench.image.controller_epoch,
        )
        assert await bench.controller.allocate_producer_ids(10) == range(500, 510)


async def test_a_controller_that_was_replaced_gets_an_error() -> None:
    store = MemoryStore()
    async with Bench(store) as bench:
        other = await store.open_session(2)
        election = asyncio.ensure_future(store.stand_for_election(other))
        await asyncio.sleep(0)
        mine = store.server.controller
        assert mine is not None
        store.expire(mine)
        assert await election == 2
        with pytest.raises(NotController):
            await bench.create_topic("orders")
        assert "orders" not in bench.image.topics


async def test_a_stopping_controller_finishes_what_is_queued_and_refuses_the_rest() -> None:
    bench = Bench()
    await bench.__aenter__()
    queued = [asyncio.ensure_future(bench.create_topic(f"t{i}")) for i in range(5)]
    await asyncio.sleep(0)
    await bench.controller.stop()
    await asyncio.gather(*queued)
    assert len(bench.image.topics) == 5
    with pytest.raises(NotController):
        await bench.create_topic("late")


async def test_the_log_is_replaced_by_snapshots_and_does_not_grow_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RECORDS_BEFORE_SNAPSHOT", 50)
    path = tmp_path / "metadata.db"
    async with Bench(EmbeddedStore(path)) as bench:
        for _ in range(10):
            await bench.controller.create_topics([NewTopic("orders", 20)])
            await bench.controller.active_controller.delete_topics([TopicSelector("orders")])
        await bench.controller.create_topics([NewTopic("users", 3)])
        entries = await bench.store.read(0)
        assert entries[0].is_snapshot
        assert sum(len(each.records) for each in entries) < 80
        before = bench.image
    async with Bench(EmbeddedStore(path)) as bench:
        assert bench.image.topics["users"].topic_id == before.topics["users"].topic_id
        assert list(bench.image.topics) == ["users"]


async def test_a_bug_in_one_change_does_not_stop_the_next() -> None:
    async with Bench() as bench:

        def broken(_image: ClusterImage) -> object:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await bench.controller.active_controller._writer.change(broken)  # type: ignore[arg-type]
        await bench.create_topic("orders")
