from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.image import EMPTY, ClusterImage, PartitionImage, TopicImage, diff_images
from ottla.metadata.records import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    ConfigResource,
    ControllerElected,
    Endpoint,
    MetadataError,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)

ORDERS, USERS = UUID(int=1), UUID(int=2)
HERE = Endpoint("PLAINTEXT", "127.0.0.1", 9092)


def partition_created(topic_id: UUID, index: int) -> PartitionCreated:
    return PartitionCreated(topic_id, index, 1, 0, (1,), (1,))


def two_topics() -> ClusterImage:
    return EMPTY.apply(
        [
            ClusterCreated("c"),
            BrokerRegistered(1, 7, "rack", (HERE,)),
            TopicCreated("orders", ORDERS),
            partition_created(ORDERS, 0),
            partition_created(ORDERS, 1),
            TopicCreated("users", USERS),
            partition_created(USERS, 0),
            ConfigChanged(ConfigResource.TOPIC, "orders", "retention.ms", "5"),
        ]
    )


@st.composite
def histories(draw: st.DrawFn) -> list[MetadataRecord]:
    """Make records that a controller could have written."""
    image, history = EMPTY, [ClusterCreated("c")]
    image = image.apply(history)
    for number in range(draw(st.integers(0, 25))):
        records: list[MetadataRecord] = []
        ids = list(image.names_by_id)
        kind = draw(
            st.sampled_from(
                ["topic", "topic", "grow", "change", "delete", "config", "ids", "broker", "fence"]
            )
        )
        if kind == "topic":
            records = [TopicCreated(f"t{number}", UUID(int=number))]
            records += [partition_created(UUID(int=number), i) for i in range(draw(st.integers(0, 3)))]
        elif kind == "config":
            key, value = draw(st.sampled_from("xy")), draw(st.sampled_from(("1", "2", None)))
            names = ["", "1", *image.topics]
            name = draw(st.sampled_from(names))
            resource = ConfigResource.TOPIC if name in image.topics else ConfigResource.BROKER
            records = [ConfigChanged(resource, name, key, value)]
        elif kind == "ids":
            records = [ProducerIdsAllocated(number * 10)]
        elif kind == "broker":
            records = [BrokerRegistered(number % 3, number, None, (HERE,)), ControllerElected(1, number + 1)]
        elif kind == "fence" and image.brokers:
            broker = image.brokers[draw(st.sampled_from(list(image.brokers)))]
            change = BrokerChanged(broker.node_id, broker.epoch, draw(st.booleans()), draw(st.booleans()))
            records = [change] if draw(st.booleans()) else [BrokerUnregistered(broker.node_id)]
        elif ids:
            topic = image.topic_by_id(draw(st.sampled_from(ids)))
            assert topic is not None
            size = len(topic.partitions)
            if kind == "delete":
                records = [TopicDeleted(topic.topic_id)]
            elif kind == "grow":
                records = [partition_created(topic.topic_id, size)]
            elif size:
                index = draw(st.integers(0, size - 1))
                nodes = st.sampled_from([(), (1,), (2, 3)])
                others = [draw(nodes) for _ in range(4)]
                records = [PartitionChanged(topic.topic_id, index, -1, number, (1, 2), (2,), number, *others)]
        image = image.apply(records)
        history += records
    return history


@settings(max_examples=100, deadline=None)
@given(histories())
def test_an_image_equals_the_replay_of_its_own_records(history: list[MetadataRecord]) -> None:
    image = EMPTY.apply(history)
    assert EMPTY.apply(image.records()) == image


@settings(max_examples=100, deadline=None)
@given(histories(), st.data())
def test_it_does_not_matter_how_a_history_is_cut_into_appends(
    history: list[MetadataRecord], data: st.DataObject
) -> None:
    image, rest = EMPTY, history
    while rest:
        cut = data.draw(st.integers(1, len(rest)))
        image, rest = image.apply(rest[:cut]), rest[cut:]
    assert replace(image, version=0) == replace(EMPTY.apply(history), version=0)


@settings(max_examples=100, deadline=None)
@given(histories(), st.data())
def test_the_changes_between_two_images_are_exactly_what_differs(
    history: list[MetadataRecord], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    old = EMPTY.apply(history[:cut])
    new = old.apply(history[cut:])
    found = diff_images(old, new)
    topics = {topic.topic_id: topic for topic in old.topics.values()}
    for topic in found.deleted:
        del topics[topic.topic_id]
    topics |= {topic.topic_id: topic for topic in (*found.created, *found.changed)}
    assert topics == {topic.topic_id: topic for topic in new.topics.values()}
    for key in old.configs.keys() | new.configs.keys():
        assert (key in found.configs) == (old.configs.get(key) != new.configs.get(key))


def test_an_image_keeps_what_it_was_when_a_newer_one_is_made() -> None:
    before = two_topics()
    snapshot = EMPTY.apply(before.records(), before.version)
    before.apply([TopicDeleted(ORDERS), partition_created(USERS, 1), ProducerIdsAllocated(9)])
    assert before == snapshot


def test_topics_are_found_by_name_and_by_id() -> None:
    image = two_topics()
    topic = image.topics["orders"]
    assert topic is image.topic_by_id(ORDERS)
    assert [each.index for each in topic.partitions] == [0, 1]
    assert topic.replication_factor == 1
    assert image.topic_by_id(UUID(int=9)) is None
    assert image.partition("orders", 1) == PartitionImage(1, 1, 0, (1,), (1,), 0)
    assert image.partition("orders", 2) is None
    assert image.partition("orders", -1) is None
    assert image.partition("nothing", 0) is None


def test_brokers_are_reached_by_listener() -> None:
    broker = two_topics().brokers[1]
    assert broker.endpoint("PLAINTEXT") == HERE
    assert broker.endpoint("SSL") is None


def test_a_broker_whose_session_ended_is_known_but_not_reachable() -> None:
    image = two_topics()
    assert image.reachable("PLAINTEXT") == {1}
    assert image.reachable("INTERNAL") == frozenset()
    stopping = image.apply([BrokerChanged(1, 7, fenced=False, shutting_down=True)])
    assert stopping.reachable("PLAINTEXT") == {1}
    assert not stopping.brokers[1].can_lead
    fenced = image.apply([BrokerChanged(1, 7, fenced=True, shutting_down=False)])
    assert fenced.reachable("PLAINTEXT") == frozenset()
    assert fenced.brokers[1].rack == "rack"
    assert fenced.apply([BrokerUnregistered(1)]).brokers == {}


def test_a_partition_on_its_way_knows_where_it_will_be() -> None:
    change = PartitionChanged(ORDERS, 0, 1, 0, (3, 2, 1), (1, 2), 1, adding=(3,), removing=(1,))
    topic = two_topics().apply([change]).topics["orders"]
    assert topic.partitions[0].is_reassigning
    assert topic.partitions[0].target == (3, 2)
    assert topic.replication_factor == 2
    assert topic.partitions[0].offline({1, 2}) == (3,)
    assert not topic.partitions[1].is_reassigning


def test_a_deleted_topic_takes_its_configs_along() -> None:
    image = two_topics().apply([TopicDeleted(ORDERS)])
    assert "orders" not in image.topics
    assert image.topic_overrides("orders") == {}
    again = image.apply([TopicCreated("orders", UUID(int=8))])
    assert again.topic_overrides("orders") == {}


def test_configs_of_topics_of_one_broker_and_of_all_brokers_are_apart() -> None:
    image = two_topics().apply(
        [
            ConfigChanged(ConfigResource.BROKER, "", "log.retention.ms", "1"),
            ConfigChanged(ConfigResource.BROKER, "1", "log.retention.ms", "2"),
        ]
    )
    assert image.topic_overrides("orders") == {"retention.ms": "5"}
    assert image.broker_overrides() == {"log.retention.ms": "1"}
    assert image.broker_overrides(1) == {"log.retention.ms": "2"}
    assert image.broker_overrides(2) == {}
    reset = image.apply([ConfigChanged(ConfigResource.BROKER, "1", "log.retention.ms", None)])
    assert reset.broker_overrides(1) == {}


def test_what_a_change_does_not_touch_is_shared() -> None:
    before = two_topics()
    after = before.apply([ProducerIdsAllocated(1000)])
    assert after.topics is before.topics
    assert after.configs is before.configs
    grown = before.apply([partition_created(USERS, 1)])
    assert grown.topics["orders"] is before.topics["orders"]
    assert [topic.name for topic in diff_images(before, grown).changed] == ["users"]


def test_a_topic_that_was_deleted_and_made_again_is_both_in_the_changes() -> None:
    before = two_topics()
    after = before.apply([TopicDeleted(ORDERS), TopicCreated("orders", UUID(int=8))])
    found = diff_images(before, after)
    assert [topic.topic_id for topic in found.deleted] == [ORDERS]
    assert [topic.topic_id for topic in found.created] == [UUID(int=8)]
    assert found.changed == ()


def test_internal_topics_are_known_by_name() -> None:
    assert TopicImage("__consumer_offsets", ORDERS).is_internal
    assert not TopicImage("orders", ORDERS).is_internal


@pytest.mark.parametrize(
    "record",
    [
        ClusterCreated("another"),
        TopicCreated("orders", UUID(int=9)),
        TopicCreated("other", ORDERS),
        TopicDeleted(UUID(int=9)),
        partition_created(UUID(int=9), 0),
        partition_created(ORDERS, 1),
        partition_created(ORDERS, 3),
        PartitionChanged(ORDERS, 2, 1, 1, (1,), (1,), 1),
        BrokerChanged(1, 6, fenced=True, shutting_down=False),
        BrokerChanged(2, 7, fenced=True, shutting_down=False),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(record: MetadataRecord) -> None:
    with pytest.raises(MetadataError):
        two_topics().apply([record])
