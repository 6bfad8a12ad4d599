"""Our producer on a broker in memory: what becomes of a record, and when it leaves."""

from itertools import pairwise

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.produced import headers, stored, values

from ottla.client.errors import TimedOut
from ottla.client.producer import ProducerInterceptor
from ottla.client.producer.partitioners import partition_of
from ottla.common.clock import ManualClock
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord, MessageTooLarge, UnknownTopicOrPartition


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


@pytest.mark.parametrize("partition", [2, -1])
async def test_a_partition_that_is_not_there_is_refused(produce, peer, partition):
    peer.add_topic("orders", 2)
    async with produce() as producer:
        with pytest.raises(UnknownTopicOrPartition, match="it has 2, numbered from 0"):
            await producer.send("orders", b"x", partition=partition)


async def test_a_topic_is_asked_about_no_longer_than_max_block_ms(produce, peer):
    peer.fail(ApiKey.METADATA, "silent")
    async with produce(max_block_ms=20) as producer:
        with pytest.raises(TimedOut, match=r"no broker has answered what topic 'orders' is, within 0\.02 s"):
            await producer.send("orders", b"x")


@pytest.mark.parametrize("partition", ["0", 1.0])
async def test_a_partition_that_is_no_number_is_refused(produce, peer, partition):
    peer.add_topic("orders", 2)
    async with produce() as producer:
        with pytest.raises(TypeError, match="a partition is a whole number"):
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


async def test_without_acks_there_is_no_wait_and_no_offset_is_known(produce, peer):
    peer.add_topic("orders")
    async with produce(acks=0) as producer:
        assert (await (await producer.send("orders", b"x"))).offset == -1
    assert producer.stats().records == 1
    assert len(stored(peer)) == 1


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


async def test_callbacks_see_deliveries_and_failures(produce, peer):
    peer.add_topic("orders")
    told = []
    async with produce() as producer:
        await producer.send("orders", b"1", on_delivery=lambda *each: told.append(each))
        await producer.flush()
        peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
        await producer.send("orders", b"2", on_delivery=lambda *each: told.append(each))
        await producer.flush()  # raises nothing: the callback got the error
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


async def test_an_alarm_that_rings_a_little_early_is_set_again(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        await (await producer.send("orders", b"1"))
        (sender,) = producer._core.sender._broker_senders.values()
        soon = sender._loop.time() + 0.005
        sender._wake_at(soon)
        sender._timer.cancel()
        sender._on_timer()  # uvloop rounds to milliseconds, so it may ring before its time
        sender._wake_at(soon)
        assert sender._timer.when() == soon


async def test_values_are_sent_in_whole_batches_in_order(produce, peer):
    peer.add_topic("orders")
    sent = [b"%d" % n for n in range(1_000)]
    async with produce(batch_size=2_000, buffer_memory=4_000) as producer:
        await producer.send_values("orders", sent)
        await producer.send_values("orders", [])
    assert values(peer) == sent
    assert producer.stats().records == 1_000
    assert max(each.record_count for each in headers(peer)) < 100


async def test_values_go_to_the_named_partition(produce, peer):
    peer.add_topic("orders", 3)
    async with produce() as producer:
        await producer.send_values("orders", [b"a", b"b"], partition=2)
    assert [each.value for each in peer.topics["orders"].partitions[2].records()] == [b"a", b"b"]


async def test_values_with_keys_go_where_single_records_go(produce, peer):
    peer.add_topic("orders", 3)
    peer.add_topic("bulk", 3)
    keys = [b"key %d" % (n % 40) for n in range(500)]
    sent = [b"%d" % n for n in range(500)]
    async with produce(batch_size=1_000, buffer_memory=4_000) as producer:
        for key, value in zip(keys, sent, strict=True):
            await producer.send("orders", value, key=key, headers=[("h", b"1")])
        await producer.send_values("bulk", sent, keys=keys, headers=[("h", b"1")])

    def stored(topic):
        return [[each[2:] for each in log.records()] for log in peer.topics[topic].partitions]

    assert [[row[1:] for row in rows] for rows in stored("bulk")] == [
        [row[1:] for row in rows] for rows in stored("orders")
    ]
    assert sum(map(len, stored("bulk"))) == 500


async def test_values_with_keys_go_to_the_named_partition(produce, peer):
    peer.add_topic("orders", 3)
    async with produce() as producer:
        await producer.send_values("orders", [b"a", b"b"], keys=[b"1", b"2"], partition=2)
    found = peer.topics["orders"].partitions[2].records()
    assert [(each.key, each.value) for each in found] == [(b"1", b"a"), (b"2", b"b")]


async def test_a_value_that_is_too_large_is_refused_and_those_before_it_are_sent(produce, peer):
    peer.add_topic("orders")
    async with produce(max_request_size=1_000) as producer:
        with pytest.raises(MessageTooLarge):
            await producer.send_values("orders", [b"a", b"b", b"x" * 2_000, b"c"])
    assert values(peer) == [b"a", b"b"]


async def test_values_use_a_partitioner_of_ones_own(produce, peer):
    peer.add_topic("orders", 2)
    async with produce(partitioner=lambda key, partitions, available: 1) as producer:
        await producer.send_values("orders", [b"a", b"b"])
    assert [each.value for each in peer.topics["orders"].partitions[1].records()] == [b"a", b"b"]
