"""The metadata of a cluster from what its brokers have: who is in sync, and what is told."""

from uuid import UUID

import pytest

from ottla.common.ids import TopicPartition
from ottla.log.survey import DirectorySurvey, ReplicaSurvey
from ottla.metadata.backup_file import Backup
from ottla.metadata.image import EMPTY
from ottla.metadata.rebuild import VERSION_STEP, missing_brokers, missing_directories, rebuild
from ottla.metadata.records import (
    BrokerRegistered,
    ClusterCreated,
    ConfigChanged,
    ConfigResource,
    ControllerElected,
    MetadataError,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
)

ORDERS, OTHER = UUID(int=1), UUID(int=2)
AT = TopicPartition("orders", 0)
BASE = EMPTY.apply(
    [
        ClusterCreated("c"),
        ControllerElected(1, 7),
        ProducerIdsAllocated(5_000),
        BrokerRegistered(1, 900, "a", (), directory_id="d1"),
        TopicCreated("orders", ORDERS),
        PartitionCreated(ORDERS, 0, 1, 4, (1, 2, 3), (1, 2, 3), 9),
        ConfigChanged(ConfigResource.TOPIC, "orders", "retention.ms", "5"),
    ],
    100,
)
COPY = Backup(BASE)


def replica(
    last_epoch: int, end_offset: int, newest: int = 0, topic_id: UUID | None = ORDERS
) -> ReplicaSurvey:
    return ReplicaSurvey(topic_id, last_epoch, end_offset, max(newest, last_epoch))


def survey(node_id: int, **found: ReplicaSurvey) -> DirectorySurvey:
    replicas = {TopicPartition(name, 0): each for name, each in found.items()}
    return DirectorySurvey(f"/data/{node_id}", node_id, "c", f"d{node_id}", replicas)


def test_those_with_the_most_records_are_in_sync_whatever_the_copy_says():
    surveys = [
        survey(1, orders=replica(4, 120)),  # a leader that was replaced, with a tail that was never committed
        survey(2, orders=replica(5, 110, newest=6)),
        survey(3, orders=replica(5, 110)),
    ]
    partition = rebuild(surveys, [COPY]).image.topics["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.last_known_elr) == (-1, (2, 3), (2,))
    assert (partition.leader_epoch, partition.partition_epoch) == (7, 10)


def test_everything_of_the_newest_copy_is_kept_and_every_number_grows():
    older = Backup(EMPTY.apply([ClusterCreated("c")], 50))
    rebuilt = rebuild([survey(1, orders=replica(4, 1))], [older, COPY]).image
    assert rebuilt.configs == BASE.configs
    assert rebuilt.topics["orders"].topic_id == ORDERS
    assert rebuilt.version == 100 + VERSION_STEP
    assert (rebuilt.controller_epoch, rebuilt.controller_id) == (8, -1)
    assert rebuilt.next_producer_id > 5_000
    broker = rebuilt.brokers[1]
    assert (broker.fenced, broker.epoch, broker.rack, broker.directory_id) == (True, -1, "a", "d1")


def test_a_replica_of_a_topic_that_was_created_again_does_not_count():
    surveys = [survey(1, orders=replica(9, 999, topic_id=OTHER)), survey(2, orders=replica(4, 5))]
    rebuilt = rebuild(surveys, [COPY])
    assert rebuilt.image.topics["orders"].partitions[0].isr == (2,)
    assert rebuilt.ignored == ()


def test_a_partition_without_a_replica_keeps_what_is_known_and_is_reported():
    rebuilt = rebuild([survey(1)], [COPY])
    assert rebuilt.lost == (str(AT),)
    assert rebuilt.image.topics["orders"].partitions[0].isr == (1, 2, 3)
    assert missing_brokers([survey(1)], BASE) == [2, 3]


def test_topics_that_only_the_logs_have_are_added_only_when_asked():
    surveys = [survey(1, new=replica(0, 3, topic_id=OTHER)), survey(2, new=replica(0, 4, topic_id=OTHER))]
    assert rebuild(surveys, [COPY]).ignored == ("new",)
    rebuilt = rebuild(surveys, [COPY], add_unknown=True)
    topic = rebuilt.image.topics["new"]
    assert (rebuilt.added, topic.topic_id) == (("new",), OTHER)
    assert (topic.partitions[0].replicas, topic.partitions[0].isr) == ((1, 2), (2,))


def test_without_any_metadata_the_logs_are_enough_for_the_topics():
    rebuilt = rebuild([survey(2, orders=replica(3, 8))], [], add_unknown=True).image
    assert rebuilt.cluster_id == "c"
    assert rebuilt.topics["orders"].topic_id == ORDERS
    assert rebuilt.next_producer_id >= 1 << 40


def test_data_of_different_clusters_are_not_mixed():
    stranger = DirectorySurvey("/data/9", 9, "another", "d9")
    with pytest.raises(MetadataError, match="different clusters"):
        rebuild([survey(1), stranger], [COPY])
    with pytest.raises(MetadataError, match="copies of one directory of broker 1"):
        rebuild([survey(1), survey(1)], [COPY])


def test_a_broker_may_have_several_directories():
    first = survey(1, orders=replica(4, 5))
    second = DirectorySurvey("/disk2", 1, "c", "d1b", {TopicPartition("orders", 1): replica(4, 9)})
    base = BASE.apply([PartitionCreated(ORDERS, 1, 1, 4, (1,), (1,))])
    rebuilt = rebuild([first, second], [Backup(base)]).image
    assert rebuilt.brokers[1].directory_id == "d1"
    assert rebuilt.brokers[1].other_directories == ("d1b",)  # or its replicas would count as lost
    assert missing_directories([first], rebuilt) == [(1, "d1b")]
    assert missing_directories([first, second], rebuilt) == []
    assert [each.isr for each in rebuilt.topics["orders"].partitions] == [(1,), (1,)]


def test_two_copies_in_one_broker_are_refused_unless_they_are_equal():
    former = DirectorySurvey("/disk2", 1, "c", "d1b", {AT: replica(4, 5)})
    with pytest.raises(MetadataError, match="has orders-0 in two of its directories"):
        rebuild([survey(1, orders=replica(4, 9)), former], [COPY])
    rebuilt = rebuild([survey(1, orders=replica(4, 5)), former], [COPY]).image  # killed at the end of a move
    assert rebuilt.topics["orders"].partitions[0].isr == (1,)
