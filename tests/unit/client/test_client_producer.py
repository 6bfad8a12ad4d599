import asyncio
from itertools import pairwise

import pytest
from kio.schema.errors import ErrorCode

from ottla.client.address import Address
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnreachable, ClientClosed, TimedOut
from ottla.client.producer import AsyncProducer, ProducerInterceptor, ProducerOptions
from ottla.client.producer.partitioners import partition_of
from ottla.common.clock import ManualClock
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord, MessageTooLarge, UnknownTopicOrPartition
from ottla.protocol.record_batch import decode_header


@pytest.fixture
async def cluster(peer):
    async with Cluster([peer.address]) as cluster:
        yield cluster


@pytest.fixture
def produce(cluster):
    """Make producers on the fake broker; impatient ones, unless told otherwise."""

    def make(clock=None, **changes):
        options = ProducerOptions(**{"delivery_timeout_ms": 500, **changes})
        return AsyncProducer.on(cluster, options, clock)

    return make


def stored(peer, topic="orders", partition=0):
    return peer.topics[topic].partitions[partition].records()


def values(peer, topic="orders", partition=0):
    return [each.value for each in stored(peer, topic, partition)]


def headers(peer, topic="orders", partition=0):
    return [decode_header(each) for each in peer.topics[topic].partitions[partition].batches]


async def test_a_delivery_tells_where_the_record_is(produce, peer):
    peer.add_topic("orders")
    async with produce(clock=ManualClock(77)) as producer:
        deliveries = [await producer.send("orders", b"%d" % n) for n in range(5)]
        assert [(await each).offset for each in deliveries] == [0, 1, 2, 3, 4]
        assert await deliveries[3] == ("orders", 0, 3, 77)
        assert all(each.done() for each in deliveries)
    assert values(peer) == [b"0", b"1", b"2", b"3", b"4"]
    assert producer.stats().records == 5


async def test_a_lone_record_leaves_at_once_and_the_next_ones_wait_for_its_answer_together(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        await (await producer.send("orders", b"0"))
        for n in range(1, 100):
            await producer.send("orders", b"%d" % n)
    assert values(peer) == [b"%d" % n for n in range(100)]
    assert [each.record_count for each in headers(peer)] == [1, 99]


async def test_records_linger_together(produce, peer):
    peer.add_topic("orders")
    async with produce(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        for n in range(100):
            await producer.send("orders", b"%d" % n)
        await producer.flush()
    assert len(headers(peer)) == 1


async def test_the_linger_time_ends_by_itself(produce, peer):
    peer.add_topic("orders")
    async with produce(linger_ms=10) as producer:
        first = await producer.send("orders", b"1")
        second = await producer.send("orders", b"2")
        assert ((await first).offset, (await second).offset) == (0, 1)
    assert len(headers(peer)) == 1


async def test_everything_about_a_record_arrives(produce, peer):
    peer.add_topic("orders")
    given = (("a", b"1"), ("a", None), ("", b""))
    async with produce(clock=ManualClock(77)) as producer:
        await producer.send("orders", None, b"k", headers=given, timestamp_ms=5)
        await producer.send("orders", b"", b"", headers={"b": bytearray(b"2")})
    tombstone, empty = stored(peer)
    assert (tombstone.key, tombstone.value, tombstone.headers, tombstone.timestamp) == (b"k", None, given, 5)
    assert (empty.key, empty.value, empty.headers, empty.timestamp) == (b"", b"", (("b", b"2"),), 77)


@pytest.mark.parametrize(
    ("record", "error", "said"),
    [
        ({"value": "text"}, TypeError, "a value is bytes or None, not str; for anything else give a value_"),
        ({"key": 7}, TypeError, "a key is bytes or None, not int"),
        ({"headers": [(b"raw", b"")]}, TypeError, "the name of a header is text, not bytes"),
        ({"headers": [("name", "text")]}, TypeError, "a header is bytes or None, not str"),
        ({"timestamp_ms": -1}, ValueError, "timestamp_ms counts from 1970"),
        ({"value": bytes(2_000_000)}, MessageTooLarge, "has 2000021 bytes, and max_request_size is 1048576"),
    ],
)
async def test_what_cannot_be_sent_is_refused_at_once(produce, peer, record, error, said):
    peer.add_topic("orders")
    async with produce() as producer:
        with pytest.raises(error, match=said):
            await producer.send("orders", **record)
    assert stored(peer) == []


async def test_serializers_make_bytes_of_anything(produce, peer):
    peer.add_topic("orders")
    async with produce(key_serializer=str.encode, value_serializer=lambda n: b"%d" % n) as producer:
        await producer.send("orders", 42, "answer")
    assert [(each.key, each.value) for each in stored(peer)] == [(b"answer", b"42")]


async def test_a_key_decides_the_partition_and_a_partition_wins_over_it(produce, peer):
    peer.add_topic("orders", 7)
    async with produce() as producer:
        by_key = await producer.send("orders", b"1", b"customer")
        by_hand = await producer.send("orders", b"2", b"customer", partition=6)
    assert by_key.partition.partition == partition_of(b"customer", 7)
    assert by_hand.partition.partition == 6


@pytest.mark.parametrize("partition", [2, -1, "0", 1.0])
async def test_a_partition_that_is_not_there_is_refused(produce, peer, partition):
    peer.add_topic("orders", 2)
    async with produce() as producer:
        with pytest.raises(UnknownTopicOrPartition, match="it has 2, numbered from 0"):
            await producer.send("orders", b"x", partition=partition)


async def test_a_partitioner_of_ones_own_sees_the_key_and_the_partitions(produce, peer):
    topic = peer.add_topic("orders", 3)
    topic.partitions[1].leader = -1
    seen = []

    def last(key, partitions, available):
        seen.append((key, list(partitions), list(available)))
        return partitions[-1]

    async with produce(partitioner=last) as producer:
        delivery = await producer.send("orders", b"x", b"k")
    assert delivery.partition.partition == 2
    assert seen == [(b"k", [0, 1, 2], [0, 2])]


async def test_records_without_a_key_move_on_when_a_batch_is_full(produce, peer):
    peer.add_topic("orders", 4)
    async with produce(linger_ms=60_000, batch_size=200) as producer:
        deliveries = [await producer.send("orders", b"x" * 50) for _ in range(60)]
    runs = [each.partition.partition for each in deliveries]
    assert len(set(runs)) == 4
    assert sum(a != b for a, b in pairwise(runs)) <= 30  # they stick in between


async def test_an_idempotent_batch_keeps_its_number_when_it_is_sent_again(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, "lose reply", "drop")
    async with produce() as producer:
        assert (await (await producer.send("orders", b"once"))).offset == 0
        assert (await (await producer.send("orders", b"twice"))).offset == 1
    assert values(peer) == [b"once", b"twice"]
    assert [each.base_sequence for each in headers(peer)] == [0, 1]
    assert len(peer.sent(ApiKey.PRODUCE)) == 4
    assert len(peer.sent(ApiKey.INIT_PRODUCER_ID)) == 1
    assert producer.stats().retries == 2


async def test_without_acks_of_all_there_is_no_producer_id(produce, peer):
    peer.add_topic("orders")
    async with produce(acks=1) as producer:
        await producer.send("orders", b"x")
    assert peer.sent(ApiKey.INIT_PRODUCER_ID) == []
    assert (headers(peer)[0].producer_id, headers(peer)[0].base_sequence) == (-1, -1)


async def test_without_acks_nobody_waits_and_no_offset_is_known(produce, peer):
    peer.add_topic("orders")
    async with produce(acks=0) as producer:
        assert (await (await producer.send("orders", b"x"))).offset == -1
    assert producer.stats().records == 1
    assert len(stored(peer)) == 1


async def test_a_moved_leader_is_looked_up_and_the_batch_sent_again(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas)
    async with produce() as producer:
        assert (await (await producer.send("orders", b"x"))).offset == 0


async def test_order_is_kept_when_the_first_of_many_batches_under_way_fails(produce, peer):
    peer.add_topic("orders")
    async with produce(batch_size=50, delivery_timeout_ms=5_000) as producer:
        await producer.send("orders", b"0")
        await producer.flush()
        peer.fail(ApiKey.PRODUCE, ErrorCode.not_leader_or_follower)
        for n in range(1, 40):
            await producer.send("orders", b"%d" % n)
    assert values(peer) == [b"%d" % n for n in range(40)]
    assert {each.producer_epoch for each in headers(peer)} == {0}


async def test_a_lost_connection_with_many_batches_under_way_loses_and_doubles_nothing(produce, peer):
    peer.add_topic("orders")
    async with produce(batch_size=50, delivery_timeout_ms=5_000) as producer:
        peer.fail(ApiKey.PRODUCE, "", "", "lose reply", "", "drop", "", "", "lose reply")
        for n in range(60):
            await producer.send("orders", b"%d" % n)
    assert values(peer) == [b"%d" % n for n in range(60)]


async def test_a_batch_that_is_too_large_is_sent_in_parts_in_order(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.message_too_large, ErrorCode.message_too_large)
    async with produce(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        deliveries = [await producer.send("orders", b"%d" % n) for n in range(8)]
        await producer.flush()
        assert [(await each).offset for each in deliveries] == list(range(8))
    assert values(peer) == [b"%d" % n for n in range(8)]
    assert [each.base_sequence for each in headers(peer)] == [0, 2, 4]
    assert producer.buffered_bytes == 0


async def test_a_record_that_is_too_large_for_the_broker_fails_alone_and_loudly(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.message_too_large)
    async with produce() as producer:
        refused = await producer.send("orders", b"huge")
        with pytest.raises(MessageTooLarge):
            await refused
        assert (await (await producer.send("orders", b"small"))).offset == 0
    assert (producer.stats().records, producer.stats().failed_records) == (1, 1)


async def test_after_a_refused_batch_the_numbers_begin_anew_in_a_new_epoch(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        await (await producer.send("orders", b"1"))
        peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
        with pytest.raises(InvalidRecord):
            await (await producer.send("orders", b"2"))
        await (await producer.send("orders", b"3"))
    assert [(each.producer_epoch, each.base_sequence) for each in headers(peer)] == [(0, 0), (1, 0)]
    assert len({each.producer_id for each in headers(peer)}) == 1


async def test_a_broker_that_has_forgotten_the_producer_gets_a_new_epoch(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        await (await producer.send("orders", b"1"))
        peer.fail(ApiKey.PRODUCE, ErrorCode.out_of_order_sequence_number)
        assert (await (await producer.send("orders", b"2"))).offset == 1
    assert [(each.producer_epoch, each.base_sequence) for each in headers(peer)] == [(0, 0), (1, 0)]


async def test_a_failure_that_nobody_has_looked_at_is_raised_by_flush_once(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
        await producer.send("orders", b"x")
        with pytest.raises(InvalidRecord):
            await producer.flush()
        await producer.flush()


async def test_leaving_raises_what_nobody_has_asked_for(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
    with pytest.raises(InvalidRecord):
        async with produce() as producer:
            await producer.send("orders", b"x")


async def test_a_broker_that_stays_away_fails_the_batch_in_the_end_with_the_reason(produce, peer, network):
    peer.add_topic("orders")
    async with produce(delivery_timeout_ms=100) as producer:
        await (await producer.send("orders", b"1"))
        del network.listening[peer.address]
        network.cut()
        late = await producer.send("orders", b"2")
        with pytest.raises(TimedOut, match="1 record for orders-0 not delivered within 100 ms") as caught:
            await late
        assert isinstance(caught.value.__cause__, BrokerUnreachable)


async def test_a_broker_that_does_not_answer_does_not_hold_a_record_past_its_time(produce, peer):
    peer.add_topic("orders")
    async with produce(delivery_timeout_ms=100) as producer:
        peer.fail(ApiKey.PRODUCE, "silent")
        with pytest.raises(TimedOut, match="the broker has not answered"):
            await asyncio.wait_for(await producer.send("orders", b"1"), 5)


async def test_after_an_expired_batch_the_next_one_is_not_taken_for_a_gap(produce, peer, network):
    peer.add_topic("orders")
    async with produce(delivery_timeout_ms=100, request_timeout_ms=150) as producer:
        await (await producer.send("orders", b"1"))
        peer.fail(ApiKey.PRODUCE, "silent")
        with pytest.raises(TimedOut):
            await (await producer.send("orders", b"lost"))
        network.cut()
        assert (await (await producer.send("orders", b"2"))).offset == 1
    assert values(peer) == [b"1", b"2"]


async def test_a_deleted_topic_fails_its_records_when_their_time_is_up(produce, peer):
    peer.add_topic("orders")
    async with produce(delivery_timeout_ms=150) as producer:
        await (await producer.send("orders", b"1"))
        del peer.topics["orders"]
        said = "1 record for orders-0 not delivered within 150 ms: the cluster has no partition orders-0"
        with pytest.raises(TimedOut, match=said) as caught:
            await (await producer.send("orders", b"2"))
        assert isinstance(caught.value.__cause__, UnknownTopicOrPartition)


async def test_a_topic_that_nobody_creates_is_named(produce):
    async with produce() as producer:
        with pytest.raises(UnknownTopicOrPartition, match="there is no topic 'orders', and the broker"):
            await producer.send("orders", b"x")


async def test_retries_can_be_limited(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, *[ErrorCode.not_enough_replicas] * 3)
    async with produce(retries=1) as producer:
        delivery = await producer.send("orders", b"x")
        with pytest.raises(Exception, match="orders-0"):
            await delivery
    assert len(peer.sent(ApiKey.PRODUCE)) == 2


async def test_a_full_buffer_makes_senders_wait_until_there_is_room(produce, peer):
    peer.add_topic("orders")
    async with produce(buffer_memory=1_000, delivery_timeout_ms=5_000) as producer:
        for _ in range(10):
            await asyncio.wait_for(producer.send("orders", b"x" * 600), 5)
            assert producer.buffered_bytes <= 1_000
        await asyncio.wait_for(producer.send("orders", b"x" * 5_000), 5)  # larger than the whole buffer
    assert len(stored(peer)) == 11


async def test_those_who_wait_for_room_are_served_in_order_and_may_give_up(produce, peer):
    peer.add_topic("orders")
    async with produce(buffer_memory=1_000, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        await producer.send("orders", b"x" * 900)
        waiting = [asyncio.ensure_future(producer.send("orders", b"%d" % n + b"x" * 600)) for n in range(6)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        waiting[1].cancel()
        for _ in range(5):
            await producer.flush()
            await asyncio.sleep(0.01)
        await asyncio.wait(waiting, timeout=5)
    assert [each[:1] for each in values(peer)[1:]] == [b"0", b"2", b"3", b"4", b"5"]


async def test_leaving_with_an_exception_still_delivers_what_was_sent(produce, peer):
    peer.add_topic("orders")
    with pytest.raises(ZeroDivisionError):
        async with produce() as producer:
            await producer.send("orders", b"x")
            raise ZeroDivisionError
    assert values(peer) == [b"x"]


async def test_leaving_when_cancelled_does_not_wait(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, "silent")
    with pytest.raises(asyncio.CancelledError):
        async with produce(delivery_timeout_ms=60_000) as producer:
            delivery = await producer.send("orders", b"x")
            raise asyncio.CancelledError
    assert isinstance(delivery.exception(), ClientClosed)


async def test_closing_may_be_given_a_time(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, "silent")
    producer = produce(delivery_timeout_ms=60_000)
    await producer.start()
    delivery = await producer.send("orders", b"x")
    with pytest.raises(TimedOut, match=r"1 records were not delivered within 0\.05 s"):
        await producer.close(timeout_s=0.05)
    with pytest.raises(ClientClosed):
        await delivery
    with pytest.raises(ClientClosed):
        await producer.send("orders", b"y")
    await producer.close()


async def test_before_it_is_started_a_producer_says_so():
    with pytest.raises(ClientClosed, match="not started: use `async with`"):
        await AsyncProducer("localhost:1").send("orders", b"x")


@pytest.mark.parametrize("compression_type", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_batches_are_compressed_with_every_codec(produce, peer, compression_type):
    peer.add_topic("orders")
    async with produce(compression_type=compression_type) as producer:
        await producer.send("orders", b"x" * 1000)
    assert headers(peer)[0].codec == ["none", "gzip", "snappy", "lz4", "zstd"].index(compression_type)
    assert values(peer) == [b"x" * 1000]


async def test_an_old_broker_is_not_sent_zstd(produce, peer, network):
    peer.add_topic("orders")
    peer.versions[ApiKey.PRODUCE] = (3, 6)
    network.cut()
    async with produce(compression_type="zstd") as producer:
        with pytest.raises(Exception, match="too old for zstd"):
            await (await producer.send("orders", b"x"))


async def test_callbacks_are_told_of_deliveries_and_failures(produce, peer):
    peer.add_topic("orders")
    told = []
    async with produce() as producer:
        await producer.send("orders", b"1", on_delivery=lambda *each: told.append(each))
        await producer.flush()
        peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
        await producer.send("orders", b"2", on_delivery=lambda *each: told.append(each))
        await producer.flush()  # raises nothing: somebody was told
    (metadata, nothing), (none, error) = told
    assert (metadata.offset, nothing, none, type(error)) == (0, None, None, InvalidRecord)


async def test_interceptors_see_and_change_records_and_learn_what_became_of_them(produce, peer):
    peer.add_topic("orders")
    seen = []

    class Shouting(ProducerInterceptor):
        def on_send(self, record):
            return record._replace(value=record.value.upper())

        def on_acknowledgement(self, metadata, error):
            seen.append((metadata and metadata.offset, error))

        def close(self):
            seen.append("closed")

    class Broken(ProducerInterceptor):
        def on_send(self, record):
            raise ZeroDivisionError

    async with produce(interceptors=[Broken(), Shouting()]) as producer:
        await producer.send("orders", b"hello")
    assert values(peer) == [b"HELLO"]
    assert seen == [(0, None), "closed"]


async def test_many_partitions_of_many_topics_travel_in_one_request(produce, peer):
    peer.add_topic("a", 3)
    peer.add_topic("b", 3)
    async with produce(linger_ms=20) as producer:
        for topic in "ab":
            for partition in range(3):
                await producer.send(topic, b"x", partition=partition)
    assert len(peer.sent(ApiKey.PRODUCE)) == 1
    assert all(values(peer, topic, partition) == [b"x"] for topic in "ab" for partition in range(3))


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


async def test_a_record_that_comes_while_the_producer_stops_does_not_keep_it_from_stopping(produce, peer):
    peer.add_topic("orders")
    async with asyncio.timeout(5):
        async with produce() as producer:
            core = producer._core
            await core.open_topic("orders")
            core._stopping.set()
            await asyncio.sleep(0)
            core.sender.stop()
            core.wake(core.offer(core.intake.prepare("orders", b"x", None, None, None, (), None)))
            await core.stop()


async def test_an_alarm_that_rings_a_little_early_is_set_again(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        await (await producer.send("orders", b"1"))
        (lane,) = producer._core.sender._lanes.values()
        soon = lane._loop.time() + 0.005
        lane._wake_at(soon)
        lane._alarm.cancel()
        lane._ring()  # uvloop rounds to milliseconds, so it may ring before its time
        lane._wake_at(soon)
        assert lane._alarm.when() == soon
