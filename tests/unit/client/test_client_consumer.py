import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.fake_broker import FakeBroker

from ottla.client.consumer import AsyncConsumer, ConsumerOptions, DeserializationFailed, NoOffset, WrongUse
from ottla.client.consumer.fetching.positions import Positions
from ottla.client.consumer.membership.listener import NotAssigned
from ottla.client.errors import ClientClosed, TimedOut
from ottla.common.config.declaration import ConfigError
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import CorruptMessage, OffsetOutOfRange
from ottla.protocol.records.records import Record, encode_batch

ORDERS = TopicPartition("orders", 0)


def batch(*values, control=False, codec=0, producer_id=-1):
    return encode_batch(
        [Record(n, 1000 + n, b"k", value, (("h", b"1"),)) for n, value in enumerate(values)],
        control=control,
        codec=codec,
        producer_id=5 if control else producer_id,
        producer_epoch=0 if control or producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )


def consumer(**options):
    options = {"auto_offset_reset": "none", "fetch_max_wait_ms": 20, "retry_backoff_ms": 5} | options
    return AsyncConsumer("fake:9092", **options)


async def opened(reader, *positions):
    reader.assign([partition for partition, _ in positions])
    for partition, offset in positions:
        reader.seek(partition, offset)


async def read(reader, timeout_ms=2_000):
    found = await reader.getmany(timeout_ms=timeout_ms)
    return [(each.partition, each.offset, each.value) for records in found.values() for each in records]


async def test_records_come_with_everything_they_have(peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a", codec=4))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        record = await reader.getone(timeout_ms=2_000)
    assert record == ("orders", 0, 0, 1000, 0, b"k", b"a", (("h", b"1"),), 3)
    assert (record.topic, record.value, record.leader_epoch) == ("orders", b"a", 3)


async def test_the_position_moves_behind_what_was_returned(peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(batch(b"a", b"b"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        assert (await reader.getmany(timeout_ms=2_000, max_records=1))[ORDERS][0].value == b"a"
        assert await reader.position(ORDERS) == 1
        assert await read(reader) == [(0, 1, b"b")]
        assert await reader.position(ORDERS) == 2
        assert (reader.highwater(ORDERS), reader.lag(ORDERS)) == (2, 0)
        partition.append(batch(b"c"))
        assert await read(reader) == [(0, 2, b"c")]


async def test_reading_from_inside_a_batch_leaves_out_what_came_before(peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a", b"b", b"c"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 2))
        assert await read(reader) == [(0, 2, b"c")]


async def test_iterating_continues_where_it_was_left(peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a", b"b", b"c"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        seen = []
        async for record in reader:
            seen.append(record.value)
            break
        assert await reader.position(ORDERS) == 1
        async for record in reader:
            seen.append(record.value)
            if len(seen) == 3:
                break
    assert seen == [b"a", b"b", b"c"]


async def test_seeking_while_iterating_takes_effect_at_once(peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a", b"b", b"c"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        seen = []
        async for record in reader:
            seen.append(record.value)
            if len(seen) == 2:
                reader.seek(ORDERS, 0)
            if len(seen) == 4:
                break
    assert seen == [b"a", b"b", b"a", b"b"]


async def test_a_batch_that_is_cut_off_is_fetched_again(peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(batch(b"a"))
    partition.append(batch(b"b"))
    whole = partition.batches[1]
    partition.batches[1] = whole[:-3]
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        assert await read(reader) == [(0, 0, b"a")]
        with pytest.raises(CorruptMessage):  # a fetch that holds no whole batch at all is a broken one
            await reader.getmany(timeout_ms=2_000)
        partition.batches[1] = whole
        assert await read(reader) == [(0, 1, b"b")]


async def test_control_batches_are_skipped_but_passed(peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(batch(b"marker", control=True))
    partition.append(batch(b"a"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        assert await read(reader) == [(0, 1, b"a")]


async def test_partitions_that_are_not_assigned_or_paused_are_left_alone(peer):
    topic = peer.add_topic("orders", 3)
    for partition in topic.partitions:
        partition.append(batch(b"a"))
    other = TopicPartition("orders", 1)
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0), (other, 0))
        reader.pause(ORDERS)
        assert reader.paused() == {ORDERS}
        assert await read(reader) == [(1, 0, b"a")]
        assert await read(reader, 50) == []
        reader.resume(ORDERS)
        assert await read(reader) == [(0, 0, b"a")]
        reader.assign([])
        assert await read(reader, 20) == []
        with pytest.raises(NotAssigned, match="orders-0 is not assigned"):
            reader.seek(ORDERS, 0)


async def test_a_corrupt_batch_is_an_error_that_says_where_after_the_good_ones(peer):
    partition = peer.add_topic("orders").partitions[0]
    for value in (b"a", b"b", b"c"):
        partition.append(batch(value))
    partition.batches[1][-1] ^= 1
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        assert await read(reader) == [(0, 0, b"a")]
        for _ in range(2):
            with pytest.raises(CorruptMessage, match="orders-0 at offset 1: CRC32C"):
                await read(reader)
        reader.seek(ORDERS, 2)
        assert await read(reader) == [(0, 2, b"c")]


async def test_a_deserializer_that_fails_names_the_record_and_lets_one_continue_behind_it(peer):
    peer.add_topic("orders").partitions[0].append(batch(b"1", b"two", b"3"))
    async with consumer(value_deserializer=int) as reader:
        await opened(reader, (ORDERS, 0))
        assert await read(reader) == [(0, 0, 1)]
        with pytest.raises(DeserializationFailed, match="offset 1 of orders-0") as caught:
            await read(reader)
        reader.seek(ORDERS, caught.value.offset + 1)
        assert await read(reader) == [(0, 2, 3)]


async def test_an_offset_that_is_gone_is_named(peer):
    peer.add_topic("orders").partitions[0].start = 50
    async with consumer() as reader:
        await opened(reader, (ORDERS, 7))
        with pytest.raises(OffsetOutOfRange, match="orders-0 has no offset 7"):
            await read(reader)


async def test_an_offset_that_is_gone_is_reset_if_that_is_wanted(peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(batch(b"a"))
    partition.append(batch(b"b"))
    partition.start = 1
    del partition.batches[0]
    async with consumer(auto_offset_reset="earliest") as reader:
        await opened(reader, (ORDERS, 0))
        assert await read(reader) == [(0, 1, b"b")]


@pytest.mark.parametrize(
    ("reset", "offset"), [("earliest", 0), ("latest", 3), ("by_duration:P1D", 3), ("smallest", 0)]
)
async def test_without_an_offset_reading_begins_where_the_options_say(peer, reset, offset):
    peer.add_topic("orders").partitions[0].append(batch(b"a", b"b", b"c"))
    async with consumer(auto_offset_reset=reset) as reader:
        reader.assign([ORDERS])
        assert await reader.position(ORDERS) == offset


async def test_a_seek_while_the_leaders_are_looked_up_is_not_lost(peer, monkeypatch):
    peer.add_topic("orders").partitions[0].append(batch(b"a", b"b"))
    async with consumer(auto_offset_reset="latest") as reader:
        by_leader, calls = Positions._by_leader, []

        async def seek_meanwhile(positions, states):
            calls.append(states)
            if len(calls) == 1:
                reader.seek_to_beginning(ORDERS)
            return await by_leader(positions, states)

        monkeypatch.setattr(Positions, "_by_leader", seek_meanwhile)
        reader.assign([ORDERS])
        assert await read(reader) == [(0, 0, b"a"), (0, 1, b"b")]


async def test_without_an_offset_and_without_a_reset_it_is_an_error_every_time(peer):
    peer.add_topic("orders")
    async with consumer() as reader:
        reader.assign([ORDERS])
        for _ in range(2):
            with pytest.raises(NoOffset, match="orders-0 has no committed offset"):
                await read(reader)
        with pytest.raises(NoOffset):
            await reader.position(ORDERS)


async def test_a_topic_that_was_created_again_is_noticed(peer):
    topic = peer.add_topic("orders")
    topic.partitions[0].append(batch(b"a"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        assert await read(reader) == [(0, 0, b"a")]
        topic.topic_id = new_uuid()
        with pytest.raises(OffsetOutOfRange, match="orders was deleted and created again"):
            await read(reader)


async def test_a_topic_that_was_created_again_is_read_from_its_start_if_resets_are_allowed(peer):
    topic = peer.add_topic("orders")
    topic.partitions[0].append(batch(b"a", b"b"))
    async with consumer(auto_offset_reset="latest") as reader:
        await opened(reader, (ORDERS, 0))
        assert len(await read(reader)) == 2
        peer.add_topic("orders").partitions[0].append(batch(b"new"))
        assert await read(reader) == [(0, 0, b"new")]


async def test_an_older_broker_is_asked_by_name(peer):
    peer.versions[ApiKey.FETCH] = (4, 12)
    peer.add_topic("orders").partitions[0].append(batch(b"a"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        assert await read(reader) == [(0, 0, b"a")]
    assert peer.sent(ApiKey.FETCH)[0].topics[0].topic == "orders"


async def test_the_leader_epoch_goes_along_so_that_a_stale_view_is_fenced(peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        await read(reader)
    assert peer.sent(ApiKey.FETCH)[0].topics[0].partitions[0].current_leader_epoch == 3


async def test_lost_connections_and_moved_leaders_are_ridden_out(peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a"))
    peer.fail(ApiKey.FETCH, "drop", ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        assert await read(reader) == [(0, 0, b"a")]


async def test_errors_that_do_not_pass_are_raised_by_the_next_call(peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.FETCH, ErrorCode.topic_authorization_failed)
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        with pytest.raises(Exception, match="orders-0") as caught:
            await read(reader)
        assert caught.value.code is ErrorCode.topic_authorization_failed


async def test_a_quiet_broker_does_not_hold_up_a_busy_one(peer, network):
    quiet = network.start(type(peer)(2, peer.address._replace(host="quiet")))
    peer.advertised = {1: peer.address, 2: quiet.address}
    topic = peer.add_topic("orders", 2)
    quiet.topics = peer.topics
    topic.partitions[1].leader = 2
    quiet.fail(ApiKey.FETCH, "silent")
    topic.partitions[0].append(batch(b"a"))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0), (TopicPartition("orders", 1), 0))
        assert await read(reader) == [(0, 0, b"a")]
        topic.partitions[0].append(batch(b"b"))
        assert await read(reader) == [(0, 1, b"b")]
    assert len(quiet.sent(ApiKey.FETCH)) == 1


async def test_a_broker_that_is_away_does_not_hold_up_the_others(peer):
    peer.advertised = {1: peer.address, 2: peer.address._replace(host="away")}
    topic = peer.add_topic("orders", 3)
    topic.partitions[1].leader = 2
    topic.partitions[2].leader = -1
    topic.partitions[0].append(batch(b"a"))
    async with consumer() as reader:
        await opened(reader, *((TopicPartition("orders", index), 0) for index in range(3)))
        assert await read(reader) == [(0, 0, b"a")]


async def test_a_consumer_may_be_there_before_the_brokers(network):
    broker = FakeBroker()
    broker.add_topic("orders").partitions[0].append(batch(b"a"))
    quick = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 3, "retry_backoff_max_ms": 3}
    async with AsyncConsumer(
        [broker.address], retry_backoff_ms=1, default_api_timeout_ms=50, **quick
    ) as reader:
        with pytest.raises(TimedOut, match="no broker at fake:9092: connection refused"):
            await reader.topics()
        reader.assign([TopicPartition("orders", 0)])
        reader.seek_to_beginning()
        network.start(broker)
        assert (await reader.getone(timeout_ms=10_000)).value == b"a"


async def test_calls_end_when_their_time_is_over(peer):
    peer.add_topic("orders")
    async with consumer() as reader:
        await opened(reader, (ORDERS, 0))
        assert await reader.getmany(timeout_ms=30) == {}
        with pytest.raises(TimedOut, match="no record came within 30 ms"):
            await reader.getone(timeout_ms=30)


async def test_closing_ends_a_call_that_waits(peer):
    peer.add_topic("orders")
    reader = consumer()
    await reader.start()
    await opened(reader, (ORDERS, 0))
    waiting = asyncio.ensure_future(reader.getone())
    await asyncio.sleep(0.01)
    await reader.close()
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await reader.getmany()


async def test_what_needs_a_group_says_so(peer):
    async with consumer() as reader:
        with pytest.raises(WrongUse, match="subscribing needs a group_id"):
            reader.subscribe(["orders"])
        with pytest.raises(WrongUse, match="committing needs a group_id"):
            await reader.commit()
    with pytest.raises(ClientClosed, match="not started"):
        consumer().assign([ORDERS])


async def test_offsets_can_be_asked_for(peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a", b"b"))
    async with consumer() as reader:
        assert await reader.beginning_offsets([ORDERS]) == {ORDERS: 0}
        assert await reader.end_offsets([ORDERS]) == {ORDERS: 2}
        assert await reader.offsets_for_times({ORDERS: 1001}) == {ORDERS: (1, 1001)}
        assert await reader.offsets_for_times({ORDERS: 9999}) == {ORDERS: None}
        assert [each.index for each in await reader.partitions_for_topic("orders")] == [0]
        assert await reader.topics() == {"orders"}
        reader.assign([ORDERS])
        reader.seek_to_time(1001)
        assert await reader.position(ORDERS) == 1
        reader.seek_to_end()
        assert await reader.position(ORDERS) == 2
        reader.seek_to_beginning(ORDERS)
        assert await reader.position(ORDERS) == 0


async def test_arrow_tables_have_the_same_records(peer):
    topic = peer.add_topic("orders", 2)
    topic.partitions[0].append(batch(b"a", b"b"))
    topic.partitions[1].append(batch(None))
    async with consumer() as reader:
        await opened(reader, (ORDERS, 1), (TopicPartition("orders", 1), 0))
        rows = []
        while len(rows) < 2:
            rows += (await reader.poll_arrow(2_000, with_headers=True)).to_pylist()
        assert await reader.position(ORDERS) == 2
    found = sorted((row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in rows)
    assert found == [("orders", 0, 1, b"k", b"b"), ("orders", 1, 0, b"k", None)]
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"group_idd": "g"}, "did you mean group_id"),
        ({"auto_offset_reset": "soon"}, "must be earliest, latest, none"),
        ({"group_instance_id": "a"}, "needs a group_id"),
        ({"partition_assignment_strategy": "fair"}, "must be one of range"),
        ({"consumer_timeout_ms": 5}, "give poll, getmany or getone a timeout"),
        ({"heartbeat_interval_ms": 50_000}, "must be below session_timeout_ms"),
    ],
)
def test_options_that_do_not_fit_are_explained(options, reason):
    with pytest.raises(ConfigError, match=reason):
        ConsumerOptions.of(**options)


def test_dotted_options_and_names_of_java_are_understood():
    options = ConsumerOptions.of(
        {
            "bootstrap.servers": "a:1",
            "group.id": "g",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor",
            "enable.auto.commit": "false",
        }
    )
    assert (options.group_id, options.assignors, options.enable_auto_commit) == ("g", ("sticky",), False)
