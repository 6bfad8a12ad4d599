from collections.abc import Sequence
from uuid import UUID

import pytest

from ottla.common.config.broker import BrokerConfig
from ottla.common.topic_names import SPARK_DECISIONS_TOPIC
from ottla.controller import machine
from ottla.controller.machine import Decision, NewPartitions, NewTopic, TopicSelector
from ottla.metadata.image import EMPTY, ClusterImage, TopicImage
from ottla.metadata.records import BrokerChanged, BrokerRegistered, ClusterCreated
from ottla.protocol.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

CONFIG = BrokerConfig({"node.id": "1", "num.partitions": "3", "default.replication.factor": "2"})
THREE_BROKERS = EMPTY.apply(
    [ClusterCreated("c"), *(BrokerRegistered(node_id, 1, None, ()) for node_id in (1, 2, 3))]
)


def ids(count: int, first: int = 100) -> list[UUID]:
    return [UUID(int=first + number) for number in range(count)]


def create(image: ClusterImage, *topics: NewTopic) -> tuple[ClusterImage, Decision[TopicImage]]:
    decision = machine.create_topics(image, topics, ids(len(topics), 100 + image.version * 10), CONFIG)
    return image.apply(decision.records), decision


def with_topics(*topics: NewTopic) -> ClusterImage:
    image, decision = create(THREE_BROKERS, *topics)
    assert not any(isinstance(each, KafkaError) for each in decision.results)
    return image


def the_error(results: Sequence[object]) -> KafkaError:
    (result,) = results
    assert isinstance(result, KafkaError)
    return result


def test_with_three_replicas_two_are_the_minimum_unless_someone_chose() -> None:
    chosen = NewTopic("chosen", 1, 3, configs=(("min.insync.replicas", "1"),))
    image, _ = create(THREE_BROKERS, NewTopic("safe", 1, 3), chosen, NewTopic("two", 1, 2))
    overrides = {name: image.topic_overrides(name).get("min.insync.replicas") for name in image.topics}
    assert overrides == {"safe": "2", "chosen": "1", "two": None}
    config = BrokerConfig({"node.id": "1", "min.insync.replicas": "3"})
    decision = machine.create_topics(THREE_BROKERS, [NewTopic("of-broker", 1, 3)], ids(1), config)
    assert THREE_BROKERS.apply(decision.records).topic_overrides("of-broker") == {}


def test_a_new_partition_is_in_sync_where_there_are_brokers() -> None:
    image = THREE_BROKERS.apply([BrokerChanged(2, 1, fenced=True, shutting_down=False)])
    assigned = NewTopic("orders", assignments=((0, (2, 3, 1)),))
    image, _ = create(image, assigned)
    partition = image.topics["orders"].partitions[0]
    assert (partition.leader, partition.replicas, partition.isr) == (3, (2, 3, 1), (3, 1))
    _, decision = create(image, NewTopic("nowhere", assignments=((0, (2,)),)))
    assert isinstance(the_error(decision.results), InvalidReplicaAssignment)


def test_what_is_answered_is_what_the_image_then_holds() -> None:
    image, decision = create(
        THREE_BROKERS, NewTopic("orders", 4, 3, configs=(("retention.ms", "5"),)), NewTopic("users", 1, 1)
    )
    assert [image.topics["orders"], image.topics["users"]] == list(decision.results)
    assert len(image.topics["orders"].partitions) == 4
    assert image.topics["orders"].replication_factor == 3
    assert image.topic_overrides("orders") == {"retention.ms": "5", "min.insync.replicas": "2"}
    assert image.topic_overrides("users") == {}


def test_minus_one_stands_for_the_defaults_of_the_broker() -> None:
    topic = with_topics(NewTopic("orders")).topics["orders"]
    assert len(topic.partitions) == 3
    assert topic.replication_factor == 2


def test_new_partitions_are_led_by_their_first_replica_and_all_replicas_are_in_sync() -> None:
    for each in with_topics(NewTopic("orders", 6, 3)).topics["orders"].partitions:
        assert each.leader == each.replicas[0]
        assert each.isr == each.replicas
        assert (each.leader_epoch, each.partition_epoch) == (0, 0)


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    image = with_topics(NewTopic("orders", assignments=((1, (3, 1)), (0, (2, 3)))))
    assert [each.replicas for each in image.topics["orders"].partitions] == [(2, 3), (3, 1)]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic(""), InvalidTopicException),
        (NewTopic("."), InvalidTopicException),
        (NewTopic(".."), InvalidTopicException),
        (NewTopic("a b"), InvalidTopicException),
        (NewTopic("a/b"), InvalidTopicException),
        (NewTopic("ä"), InvalidTopicException),
        (NewTopic("x" * 250), InvalidTopicException),
        (NewTopic("taken"), TopicAlreadyExists),
        (NewTopic("with_dots"), InvalidTopicException),
        (NewTopic("orders", 0), InvalidPartitions),
        (NewTopic("orders", -2), InvalidPartitions),
        (NewTopic("orders", 1, 0), InvalidReplicationFactor),
        (NewTopic("orders", 1, -2), InvalidReplicationFactor),
        (NewTopic("orders", 1, 4), InvalidReplicationFactor),
        (NewTopic("orders", 1, -1, ((0, (1,)),)), InvalidRequest),
        (NewTopic("orders", -1, 1, ((0, (1,)),)), InvalidRequest),
        (NewTopic("orders", assignments=((1, (1,)),)), InvalidReplicaAssignment),
        (NewTopic("orders", assignments=((0, (1,)), (0, (2,)))), InvalidReplicaAssignment),
        (NewTopic("orders", assignments=((0, (1,)), (2, (2,)))), InvalidReplicaAssignment),
        (NewTopic("orders", assignments=((-1, (1,)),)), InvalidReplicaAssignment),
        (NewTopic("orders", assignments=((0, ()),)), InvalidReplicaAssignment),
        (NewTopic("orders", assignments=((0, (1, 1)),)), InvalidReplicaAssignment),
        (NewTopic("orders", assignments=((0, (9,)),)), InvalidReplicaAssignment),
        (NewTopic("orders", assignments=((0, (1,)), (1, (1, 2)))), InvalidReplicaAssignment),
        (NewTopic("orders", configs=(("retention.ms", "soon"),)), InvalidConfig),
        (NewTopic("orders", configs=(("retention.ms", None),)), InvalidConfig),
        (NewTopic("orders", configs=(("retention.ms", "1"), ("retention.ms", "2"))), InvalidConfig),
        (NewTopic("orders", configs=(("retention.mss", "1"),)), InvalidConfig),
        (NewTopic("orders", configs=(("log.retention.ms", "1"),)), InvalidConfig),
        (
            NewTopic("orders", configs=(("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "3"))),
            InvalidConfig,
        ),
    ],
)
def test_a_topic_that_will_not_do_is_refused_and_leaves_no_record(
    topic: NewTopic, error: type[KafkaError]
) -> None:
    image = with_topics(NewTopic("taken"), NewTopic("with.dots"))
    decision = machine.create_topics(image, [topic], ids(1), CONFIG)
    assert decision.records == ()
    refused = the_error(decision.results)
    assert type(refused) is error
    assert refused.message


def test_names_that_only_metrics_confuse_collide_within_a_request_too() -> None:
    image, decision = create(THREE_BROKERS, NewTopic("a.b"), NewTopic("a_b"), NewTopic("ab"))
    assert list(image.topics) == ["a.b", "ab"]
    assert isinstance(decision.results[1], InvalidTopicException)
    assert "collides with 'a.b'" in str(decision.results[1])


def test_a_mistyped_config_is_answered_with_the_nearest_name() -> None:
    decision = machine.create_topics(
        THREE_BROKERS, [NewTopic("orders", configs=(("retention.mss", "1"),))], ids(1), CONFIG
    )
    assert "retention.ms" in str(decision.results[0])


def test_one_bad_topic_does_not_stop_the_others() -> None:
    image, decision = create(THREE_BROKERS, NewTopic("good"), NewTopic("b a d"), NewTopic("fine"))
    assert list(image.topics) == ["good", "fine"]
    assert [isinstance(each, KafkaError) for each in decision.results] == [False, True, False]


def test_topics_named_twice_in_a_request_are_all_refused() -> None:
    topics = [NewTopic("twice"), NewTopic("once"), NewTopic("twice", 5)]
    refused = machine.check_new_topics(topics, CONFIG)
    assert [type(each) for each in refused] == [InvalidRequest, type(None), InvalidRequest]
    wanted = [NewPartitions("twice", 5), NewPartitions("once", 5), NewPartitions("twice", 6)]
    refused = machine.check_new_partitions(with_topics(NewTopic("twice")), wanted)
    assert [type(each) for each in refused] == [InvalidRequest, type(None), InvalidRequest]


@pytest.mark.parametrize(
    "topics",
    [
        [NewTopic("big", 10_001)],
        [NewTopic("big", 2**31 - 1)],
        [NewTopic(f"t{number}", 101) for number in range(100)],
        [NewTopic(f"t{number}") for number in range(3_334)],
        [NewTopic("big", assignments=tuple((number, (1,)) for number in range(10_001)))],
    ],
)
def test_too_many_partitions_in_one_request_are_refused_before_anything_is_made(
    topics: list[NewTopic],
) -> None:
    refused = machine.check_new_topics(topics, CONFIG)
    assert all(isinstance(each, PolicyViolation) for each in refused)
    assert len(refused) == len(topics)


def test_a_negative_count_does_not_make_room_for_others() -> None:
    topics = [NewTopic("big", 10_001), NewTopic("bad", -(2**31))]
    assert isinstance(machine.check_new_topics(topics, CONFIG)[0], PolicyViolation)


def test_deleted_topics_are_gone_by_name_and_by_id() -> None:
    image = with_topics(NewTopic("a"), NewTopic("b"), NewTopic("c"))
    by_id = image.topics["b"].topic_id
    decision = machine.delete_topics(image, [TopicSelector("a"), TopicSelector(topic_id=by_id)])
    assert list(image.apply(decision.records).topics) == ["c"]
    assert decision.results == (image.topics["a"], image.topics["b"])


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        (TopicSelector("nothing"), UnknownTopicOrPartition),
        (TopicSelector(topic_id=UUID(int=1)), UnknownTopicId),
        (TopicSelector(), InvalidRequest),
        (TopicSelector("a", UUID(int=1)), InvalidRequest),
    ],
)
def test_what_cannot_be_deleted_is_refused(selector: TopicSelector, error: type[KafkaError]) -> None:
    decision = machine.delete_topics(with_topics(NewTopic("a")), [selector])
    assert decision.records == ()
    assert type(the_error(decision.results)) is error


def test_the_decisions_of_spark_queries_are_not_deleted_by_name_or_by_id() -> None:
    image = with_topics(NewTopic(SPARK_DECISIONS_TOPIC))
    by_id = TopicSelector(topic_id=image.topics[SPARK_DECISIONS_TOPIC].topic_id)
    for selector in (TopicSelector(SPARK_DECISIONS_TOPIC), by_id):
        decision = machine.delete_topics(image, [selector])
        assert decision.records == ()
        assert type(the_error(decision.results)) is PolicyViolation


def test_a_topic_meant_twice_is_not_deleted_even_if_once_by_name_and_once_by_id() -> None:
    image = with_topics(NewTopic("a"), NewTopic("b"))
    by_id = TopicSelector(topic_id=image.topics["a"].topic_id)
    selectors = [TopicSelector("a"), TopicSelector("b"), by_id, TopicSelector("x"), TopicSelector("x")]
    refused = machine.check_selectors(image, selectors, CONFIG)
    assert [each is not None for each in refused] == [True, False, True, True, True]


def test_no_topic_is_deleted_where_deletion_is_off() -> None:
    config = BrokerConfig({"node.id": "1", "delete.topic.enable": "false"})
    refused = machine.check_selectors(with_topics(NewTopic("a")), [TopicSelector("a")], config)
    assert isinstance(refused[0], TopicDeletionDisabled)


def test_a_topic_grows_and_keeps_the_partitions_it_had() -> None:
    image = with_topics(NewTopic("orders", 2, 2))
    decision = machine.create_partitions(image, [NewPartitions("orders", 5)])
    grown = image.apply(decision.records).topics["orders"]
    assert decision.results == (grown,)
    assert grown.partitions[:2] == image.topics["orders"].partitions
    assert [len(each.replicas) for each in grown.partitions] == [2] * 5


def test_added_partitions_can_be_assigned() -> None:
    image = with_topics(NewTopic("orders", 1, 2))
    decision = machine.create_partitions(image, [NewPartitions("orders", 3, ((3, 2), (1, 3)))])
    grown = image.apply(decision.records).topics["orders"]
    assert [each.replicas for each in grown.partitions[1:]] == [(3, 2), (1, 3)]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (NewPartitions("nothing", 5), UnknownTopicOrPartition),
        (NewPartitions("orders", 3), InvalidPartitions),
        (NewPartitions("orders", 2), InvalidPartitions),
        (NewPartitions("orders", 0), InvalidPartitions),
        (NewPartitions("orders", -1), InvalidPartitions),
        (NewPartitions("orders", 4, ()), InvalidReplicaAssignment),
        (NewPartitions("orders", 4, ((1, 2), (2, 3))), InvalidReplicaAssignment),
        (NewPartitions("orders", 4, ((1,),)), InvalidReplicaAssignment),
        (NewPartitions("orders", 4, ((1, 9),)), InvalidReplicaAssignment),
        (NewPartitions("orders", 4, ((1, 1),)), InvalidReplicaAssignment),
        (NewPartitions("orders", 4, ((),)), InvalidReplicaAssignment),
    ],
)
def test_partitions_that_will_not_do_are_refused(wanted: NewPartitions, error: type[KafkaError]) -> None:
    decision = machine.create_partitions(with_topics(NewTopic("orders", 3, 2)), [wanted])
    assert decision.records == ()
    assert type(the_error(decision.results)) is error


def test_too_many_added_partitions_are_refused() -> None:
    image = with_topics(NewTopic("orders", 3, 2))
    assert machine.check_new_partitions(image, [NewPartitions("orders", 10_003)]) == [None]
    (refused,) = machine.check_new_partitions(image, [NewPartitions("orders", 10_004)])
    assert isinstance(refused, PolicyViolation)
