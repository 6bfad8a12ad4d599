"""Our producer and topics that move, grow, vanish, or have no leader yet."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.produced import values

from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.errors import TimedOut
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import UnknownTopicOrPartition
from ottla.wire.address import Address


async def test_a_moved_leader_is_looked_up_and_the_batch_sent_again(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas)
    async with produce() as producer:
        assert (await (await producer.send("orders", b"x"))).offset == 0


async def test_a_deleted_topic_fails_its_records_when_their_time_is_up(produce, peer):
    peer.add_topic("orders")
    async with produce(delivery_timeout_ms=150) as producer:
        await (await producer.send("orders", b"1"))
        del peer.topics["orders"]
        said = "1 record for orders-0 not delivered within 150 ms: the cluster has no partition orders-0"
        with pytest.raises(TimedOut, match=said) as caught:
            await (await producer.send("orders", b"2"))
        assert isinstance(caught.value.__cause__, UnknownTopicOrPartition)


async def test_a_topic_that_is_not_created_is_named(produce):
    async with produce() as producer:
        with pytest.raises(UnknownTopicOrPartition, match="there is no topic 'orders', and the broker"):
            await producer.send("orders", b"x")


async def test_a_leaderless_partition_is_waited_for(produce, peer):
    topic = peer.add_topic("orders")
    topic.partitions[0].leader = -1
    async with produce(delivery_timeout_ms=5_000) as producer:
        delivery = await producer.send("orders", b"x")
        await asyncio.sleep(0.02)
        topic.partitions[0].leader = 1
        assert (await delivery).offset == 0


async def test_a_topic_that_grows_gets_records_on_its_new_partitions(cluster, peer):
    topic = peer.add_topic("orders")
    cluster.options = ClientOptions(metadata_max_age_ms=1)
    async with AsyncProducer.on(cluster, ProducerOptions(delivery_timeout_ms=100)) as producer:
        await producer.send("orders", b"x")
        topic.partitions.append(type(topic.partitions[0])())
        async with asyncio.timeout(5):
            while True:
                try:
                    await producer.send("orders", b"y", partition=1)
                    break
                except UnknownTopicOrPartition:
                    await asyncio.sleep(0.01)
    assert values(peer, partition=1) == [b"y"]


@pytest.fixture
def second(peer, network):
    """Another broker of the same cluster."""
    other = type(peer)(2, Address("second", 9093))
    other.topics = peer.topics
    peer.advertised = other.advertised = {1: peer.address, 2: other.address}
    return network.start(other)


def move(topic, leader):
    for partition in topic.partitions:
        partition.leader = leader
        partition.leader_epoch += 1


@pytest.mark.parametrize("names_leaders", [False, True])
async def test_the_leader_is_followed_wherever_it_goes_and_order_is_kept(peer, second, names_leaders):
    peer.names_leaders = second.names_leaders = names_leaders
    topic = peer.add_topic("orders", 2)
    options = ProducerOptions(delivery_timeout_ms=5_000, batch_size=100)
    async with Cluster([peer.address]) as cluster, AsyncProducer.on(cluster, options) as producer:
        for number in range(100):
            if number % 20 == 10:
                move(topic, leader=2 if topic.partitions[0].leader == 1 else 1)
            await producer.send("orders", b"%d" % number, partition=number % 2)
            if number % 7 == 0:
                await asyncio.sleep(0.001)
    assert [int(each) for each in values(peer)] == list(range(0, 100, 2))
    assert [int(each) for each in values(peer, partition=1)] == list(range(1, 100, 2))
    assert peer.sent(ApiKey.PRODUCE)
    assert second.sent(ApiKey.PRODUCE)


async def test_who_leads_now_need_not_be_asked_when_the_old_leader_says_it(peer, second):
    peer.names_leaders = True
    topic = peer.add_topic("orders")
    async with Cluster([peer.address]) as cluster, AsyncProducer.on(cluster, ProducerOptions()) as producer:
        await (await producer.send("orders", b"1"))
        asked = len(peer.sent(ApiKey.METADATA)) + len(second.sent(ApiKey.METADATA))
        move(topic, leader=2)
        assert (await (await producer.send("orders", b"2"))).offset == 1
        assert len(peer.sent(ApiKey.METADATA)) + len(second.sent(ApiKey.METADATA)) == asked
