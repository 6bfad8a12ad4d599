import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.fake_broker import FakeBroker

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnreachable, ConnectionLost, NoLeader, TimedOut
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidTopicException, LeaderNotAvailable, UnknownTopicOrPartition
from ottla.wire.address import Address


async def test_the_first_address_that_answers_is_enough(peer):
    async with Cluster([Address("nowhere", 1), peer.address]) as cluster:
        assert cluster.cluster_id == "fake-cluster"
        assert cluster.brokers[1].address == peer.address


async def test_if_no_broker_answers_every_address_is_named(network):
    with pytest.raises(BrokerUnreachable, match="no broker at a:1, b:2: connection refused"):
        async with Cluster([Address("a", 1), Address("b", 2)]):
            pass


async def test_a_broker_that_advertises_a_wrong_address_is_distinguished(peer):
    peer.advertised = {1: Address("internal", 9092)}
    peer.add_topic("orders")
    async with Cluster([peer.address]) as cluster:
        with pytest.raises(BrokerUnreachable) as caught:
            await cluster.broker(1)
    assert caught.value.advertised_by == "broker 1"


async def test_one_of_several_brokers_that_does_not_answer_is_named(peer):
    gone = Address("gone", 9092)
    peer.advertised = {1: peer.address, 2: gone}
    async with Cluster([peer.address, gone]) as cluster:
        with pytest.raises(BrokerUnreachable) as caught:
            await cluster.broker(2)
    assert (caught.value.node_id, caught.value.advertised_by) == (2, None)


async def test_a_broker_that_is_not_in_the_cluster_is_not_found(peer):
    async with Cluster([peer.address]) as cluster:
        with pytest.raises(NoLeader, match="broker 7 is not in the cluster"):
            await cluster.broker(7)


async def test_metadata_is_asked_for_once_and_again_when_it_is_forgotten(peer):
    peer.add_topic("orders", 2)
    async with Cluster([peer.address]) as cluster:
        for _ in range(3):
            assert await cluster.leader(TopicPartition("orders", 1)) == 1
        assert len(peer.sent(ApiKey.METADATA)) == 2  # the first one was for the brokers
        cluster.forget("orders")
        await cluster.topic("orders")
        assert len(peer.sent(ApiKey.METADATA)) == 3


async def test_a_topic_that_is_not_there_is_unknown_and_not_created(peer):
    peer.auto_create = True
    async with Cluster([peer.address]) as cluster:
        with pytest.raises(UnknownTopicOrPartition, match=r"^orders$"):
            await cluster.topic("orders")
    assert peer.topics == {}


async def test_a_topic_is_created_when_the_caller_and_the_broker_want_it(peer):
    peer.auto_create = True
    peer.fail(ApiKey.METADATA, "", ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available)
    async with Cluster([peer.address]) as cluster:
        assert len((await cluster.topic("orders", create=True)).partitions) == 1


async def test_creation_is_given_up_when_the_broker_does_not_do_it(peer):
    async with Cluster([peer.address]) as cluster:
        with pytest.raises(UnknownTopicOrPartition):
            await cluster.topic("orders", create=True)


async def test_a_partition_without_a_leader_is_waited_for_by_asking_again(peer):
    topic = peer.add_topic("orders")
    topic.partitions[0].leader = -1
    async with Cluster([peer.address]) as cluster:
        with pytest.raises(LeaderNotAvailable, match="orders-0 has no leader now"):
            await cluster.leader(TopicPartition("orders", 0))
        topic.partitions[0].leader = 1
        assert await cluster.leader(TopicPartition("orders", 0)) == 1


async def test_errors_that_pass_are_retried_and_others_are_not(peer):
    peer.add_topic("orders")
    async with Cluster([peer.address]) as cluster:
        peer.fail(ApiKey.METADATA, ErrorCode.leader_not_available, ErrorCode.leader_not_available)
        await cluster.topic("orders")
        cluster.forget("orders")
        peer.fail(ApiKey.METADATA, ErrorCode.invalid_topic_exception)
        with pytest.raises(InvalidTopicException):
            await cluster.topic("orders")


async def test_retries_end_with_the_last_error_when_time_is_up(peer):
    async with Cluster([peer.address], timeout_ms=20) as cluster:

        async def attempt():
            raise ConnectionLost(peer.address, "again")

        with pytest.raises(ConnectionLost, match="again"):
            await cluster.retrying(attempt)


async def test_only_calls_that_wait_for_brokers_outlast_a_restart(peer, network):
    async with Cluster([peer.address]) as cluster:
        answer = network.listening.pop(peer.address)
        network.cut()
        attempts = 0

        async def attempt():
            nonlocal attempts
            attempts += 1
            if attempts == 4:
                network.listening[peer.address] = answer
            return await cluster.any_broker()

        await asyncio.sleep(0)  # the connection learns that it is lost
        with pytest.raises(BrokerUnreachable):
            await cluster.retrying(attempt)
        assert attempts == 1
        assert (await cluster.retrying(attempt, wait_for_brokers=True)).is_open
        assert attempts >= 4


async def test_a_broker_that_has_moved_is_looked_for_where_it_is_now(peer, network):
    moved = network.start(FakeBroker(7, Address("old", 1)))
    peer.advertised = {1: peer.address, 7: moved.address}
    async with Cluster([peer.address]) as cluster:
        await cluster.broker(7)
        network.listening[Address("new", 2)] = network.listening.pop(moved.address)
        peer.advertised = {1: peer.address, 7: Address("new", 2)}
        network.cut()
        await asyncio.sleep(0)
        found = await cluster.retrying(lambda: cluster.broker(7), wait_for_brokers=True)
        assert found.address == Address("new", 2)


async def test_leaders_are_asked_for_again_when_the_known_one_is_gone(peer, network):
    dead = Address("dead", 1)
    topic = peer.add_topic("orders")
    topic.partitions[0].leader = 7
    peer.advertised = {1: peer.address, 7: dead}
    async with Cluster([peer.address]) as cluster:
        attempts = 0

        async def attempt():
            nonlocal attempts
            attempts += 1
            if attempts == 2:
                topic.partitions[0].leader = 1
            return await cluster.broker(await cluster.leader(TopicPartition("orders", 0)))

        assert (await cluster.retrying(attempt, wait_for_brokers=True)).address == peer.address


async def test_an_attempt_does_not_outlive_the_call(peer):
    async with Cluster([peer.address], timeout_ms=20) as cluster:
        with pytest.raises(TimedOut, match=r"it was not done within 0\.02 s"):
            await cluster.retrying(asyncio.Event().wait, what="it was not done")


async def test_leaving_waits_until_every_connection_is_really_closed(peer, network):
    async with Cluster([peer.address]) as cluster:
        connection = await cluster.broker(1)
    assert all(each.is_closing() for each in network.connections)
    assert connection._closed.is_set()  # so what acks=0 wrote has left, not just been dropped


async def test_a_socket_that_does_not_close_is_not_waited_for_forever(peer, network, monkeypatch):
    monkeypatch.setattr("ottla.wire.connection.CLOSE_TIMEOUT_MS", 1)
    async with Cluster([peer.address]) as cluster:
        await cluster.broker(1)
        network.connections[0].close = lambda: None
    assert network.connections[0].is_aborted
