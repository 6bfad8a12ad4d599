from dataclasses import replace

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponsePartition, MetadataResponseTopic

from ottla.client.metadata import Broker, Metadata
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.hot_path import Leader, NodeEndpoint
from ottla.wire.address import Address

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = new_uuid()


def said(leader, leader_epoch, topic_id=TOPIC_ID):
    partition = MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=0,
        leader_id=leader,
        leader_epoch=leader_epoch,
        replica_nodes=(1, 2),
        isr_nodes=(1, 2),
    )
    return MetadataResponseTopic(
        error_code=ErrorCode.none, name="orders", topic_id=topic_id, partitions=(partition,)
    )


def known(*answers):
    metadata = Metadata()
    for time, answer in enumerate(answers):
        metadata.learn_topic(answer, time)
    return metadata


def leader_of(metadata):
    found = metadata.last_known("orders").partitions[0]
    return found.leader, found.leader_epoch


def test_an_older_leader_epoch_is_not_believed():
    assert leader_of(known(said(1, 5), said(2, 4))) == (1, 5)
    assert leader_of(known(said(1, 5), said(2, 6))) == (2, 6)
    assert leader_of(known(said(1, 5), said(-1, 5))) == (-1, 5)


def test_a_broker_that_does_not_say_the_epoch_is_believed():
    assert leader_of(known(said(1, 5), said(2, -1))) == (2, -1)


def test_a_topic_that_was_created_anew_begins_with_its_own_epochs():
    assert leader_of(known(said(1, 5), said(2, 0, topic_id=new_uuid()))) == (2, 0)


def test_what_is_stale_or_old_is_not_given_out_but_its_epochs_are_remembered():
    metadata = known(said(1, 5))
    assert metadata.topic("orders", not_before=0) is not None
    assert metadata.topic("orders", not_before=1) is None
    metadata.mark_stale("orders")
    assert metadata.topic("orders", not_before=0) is None
    metadata.learn_topic(said(2, 4), 9)
    assert leader_of(metadata) == (1, 5)
    metadata.forget("orders")
    metadata.learn_topic(said(2, 4), 9)
    assert leader_of(metadata) == (2, 4)


def test_a_leader_that_another_broker_names_is_taken_over_if_it_is_news():
    metadata = known(said(1, 5))
    metadata.brokers = {1: Broker(1, Address("a", 1))}
    assert not metadata.learn_leader(ORDERS, Leader(2, 5), [])  # not newer
    assert not metadata.learn_leader(ORDERS, Leader(2, 6), [])  # nobody knows where it is
    assert not metadata.learn_leader(ORDERS, Leader(-1, 6), [])
    assert metadata.learn_leader(ORDERS, Leader(2, 6), [NodeEndpoint(2, "b", 2, "rack")])
    assert leader_of(metadata) == (2, 6)
    assert metadata.brokers[2] == Broker(2, Address("b", 2), "rack")
    assert not metadata.learn_leader(replace_topic(ORDERS), Leader(2, 6), [])


def replace_topic(partition):
    return partition._replace(topic="others")


def test_topics_are_not_changed_behind_the_back_of_who_holds_them():
    metadata = known(said(1, 5))
    held = metadata.last_known("orders")
    metadata.brokers = {2: Broker(2, Address("b", 2))}
    metadata.learn_leader(ORDERS, Leader(2, 6), [])
    assert held.partitions[0].leader == 1
    assert (
        replace(held.partitions[0], leader=2, leader_epoch=6) == metadata.last_known("orders").partitions[0]
    )
