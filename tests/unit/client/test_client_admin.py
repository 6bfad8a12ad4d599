import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.fake_broker import FakeBroker

from ottla.client.admin import AsyncAdmin
from ottla.client.admin.config_admin import ConfigSource
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.errors import TimedOut
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import (
    InvalidConfig,
    InvalidPartitions,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from ottla.protocol.records.records import Record, encode_batch
from ottla.wire.address import Address

QUICK = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 3,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 3,
}


@pytest.fixture
async def admin(peer):
    async with Cluster([peer.address]) as cluster:
        yield TopicAdmin(cluster)


async def test_a_topic_is_created_with_the_brokers_defaults(admin, peer):
    created = await admin.create_topic("orders")
    assert (created.partition_count, created.replication_factor) == (1, 1)
    assert created.topic_id == peer.topics["orders"].topic_id
    asked = peer.sent(ApiKey.CREATE_TOPICS)[0].topics[0]
    assert (asked.num_partitions, asked.replication_factor) == (-1, -1)


async def test_a_topic_is_created_as_asked(admin, peer):
    await admin.create_topic("orders", partitions=3, replication_factor=1, configs={"retention.ms": "5"})
    assert len(peer.topics["orders"].partitions) == 3
    assert peer.topics["orders"].configs == {"retention.ms": "5"}


async def test_a_topic_that_exists_is_said_to_exist(admin, peer):
    peer.add_topic("orders")
    with pytest.raises(TopicAlreadyExists, match="already exists"):
        await admin.create_topic("orders")


async def test_checking_changes_nothing(admin, peer):
    await admin.create_topic("orders", validate_only=True)
    assert "orders" not in peer.topics


async def test_a_change_is_sent_again_until_the_controller_answers(admin, peer):
    peer.fail(ApiKey.CREATE_TOPICS, ErrorCode.not_controller, ErrorCode.not_controller, "drop")
    await admin.create_topic("orders")
    assert len(peer.sent(ApiKey.CREATE_TOPICS)) == 4


async def test_a_change_whose_answer_was_lost_is_found_made(admin, peer):
    peer.fail(ApiKey.CREATE_TOPICS, "lose reply")
    with pytest.raises(TopicAlreadyExists, match="first attempt, whose answer was lost"):
        await admin.create_topic("orders")
    peer.fail(ApiKey.CREATE_PARTITIONS, "lose reply")
    await admin.create_partitions("orders", 3)
    with pytest.raises(InvalidPartitions):
        await admin.create_partitions("orders", 3)
    peer.fail(ApiKey.DELETE_TOPICS, "lose reply")
    await admin.delete_topic("orders")
    with pytest.raises(UnknownTopicOrPartition):
        await admin.delete_topic("orders")


async def test_another_controller_is_found_when_the_first_one_dies(network, peer):
    other = network.start(FakeBroker(2, Address("other", 9092)))
    peer.advertised = other.advertised = {1: peer.address, 2: other.address}
    async with AsyncAdmin([peer.address, other.address], **QUICK) as admin:
        await admin.create_topic("before")
        del network.listening[peer.address]
        network.cut()
        await admin.create_topic("after")
        assert "after" in other.topics


async def test_calls_wait_for_a_broker_that_is_not_up_yet(network):
    broker = FakeBroker()
    async with AsyncAdmin([broker.address], **QUICK) as admin:
        listing = asyncio.create_task(admin.list_topics())
        changing = asyncio.create_task(admin.create_topic("orders"))
        await asyncio.sleep(0)
        network.start(broker)
        assert (await changing).name == "orders"
        await listing


async def test_calls_end_with_what_happened_when_their_time_is_over(network, peer):
    options = {**QUICK, "default_api_timeout_ms": 50}
    async with AsyncAdmin("nowhere:1", **options) as admin:
        with pytest.raises(
            TimedOut, match=r"not created within 0\.05 s, \d+ attempts failed.*no broker at nowhere:1"
        ):
            await admin.create_topic("orders")
    peer.add_topic("orders")
    peer.fail(ApiKey.DESCRIBE_CONFIGS, "silent")
    async with AsyncAdmin([peer.address], **options) as admin:
        with pytest.raises(TimedOut, match=r"configs could not be described within 0\.05 s"):
            await admin.topic_configs("orders")


async def test_topics_are_listed_by_name_in_order(admin, peer):
    for name in ("b", "a", "__internal"):
        peer.add_topic(name, 2)
    found = await admin.list_topics()
    assert list(found) == ["__internal", "a", "b"]
    assert found["__internal"].is_internal
    assert found["a"].replication_factor == 1


async def test_describing_an_unknown_topic_raises_its_name(admin, peer):
    peer.add_topic("a")
    with pytest.raises(UnknownTopicOrPartition, match=r"^b$"):
        await admin.describe_topics(["a", "b"])


async def test_partitions_grow_and_never_shrink(admin, peer):
    peer.add_topic("orders", 2)
    await admin.create_partitions("orders", 4)
    assert len((await admin.describe_topics(["orders"]))["orders"].partitions) == 4
    with pytest.raises(InvalidPartitions):
        await admin.create_partitions("orders", 3)


async def test_configs_are_set_and_unset_and_the_rest_is_left_alone(admin, peer):
    topic = peer.add_topic("orders")
    topic.configs.update({"retention.ms": "1", "cleanup.policy": "compact"})
    await admin.alter_topic_configs("orders", set_to={"retention.ms": "2"}, unset=["cleanup.policy"])
    found = {each.name: each for each in await admin.topic_configs("orders")}
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("2", ConfigSource.TOPIC)
    assert (found["cleanup.policy"].value, found["cleanup.policy"].source) == ("delete", ConfigSource.DEFAULT)


async def test_an_unknown_config_is_refused_with_the_brokers_words(admin, peer):
    peer.add_topic("orders")
    with pytest.raises(InvalidConfig, match=r"retention\.mss"):
        await admin.alter_topic_configs("orders", set_to={"retention.mss": "2"})


async def test_a_deleted_topic_is_gone(admin, peer):
    peer.add_topic("orders")
    await admin.delete_topic("orders")
    assert await admin.list_topics() == {}


async def test_offsets_are_looked_up_by_end_and_by_time(admin, peer):
    partition = peer.add_topic("orders", 2).partitions[1]
    partition.append(encode_batch([Record(0, 100, None, b"a", ()), Record(1, 200, None, b"b", ())]))
    where = TopicPartition("orders", 1)
    for timestamp, expected in ((EARLIEST, 0), (LATEST, 2), (150, 1), (201, -1)):
        found = await list_offsets(admin.cluster, {where: timestamp})
        assert found[where].offset == expected
    topic = await admin.cluster.topic("orders")
    assert await admin.offset_ranges(topic) == {0: (0, 0), 1: (0, 2)}


async def test_a_moved_leader_is_looked_up_again(admin, peer):
    peer.add_topic("orders")
    where = TopicPartition("orders", 0)
    peer.fail(ApiKey.LIST_OFFSETS, ErrorCode.not_leader_or_follower)
    assert (await list_offsets(admin.cluster, {where: LATEST}))[where].offset == 0
    assert len(peer.sent(ApiKey.METADATA)) == 3  # brokers, topic, topic again
