"""Our consumer against a broker: what librdkafka writes it reads, in both of its faces.

With OTTLA_TEST_BOOTSTRAP the same table runs against Apache Kafka (tests/interop/apache_kafka.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

import pytest
from tests.integration.ottla_consumers import QUICK_GROUPS, SOON_S, open_consumer, places, read

from ottla.client.consumer import Consumer, RebalanceListener
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.errors import UnknownTopicOrPartition

BROKER_SETTINGS = QUICK_GROUPS
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = [
    {"value": b"plain", "key": b"k", "timestamp": 1_700_000_000_000},
    {"value": None, "key": b"tombstone", "timestamp": 1_700_000_000_001},
    {"value": b"", "key": b"", "timestamp": 1_700_000_000_500},
    {"value": b"no key", "timestamp": 1_700_000_100_000},
    {
        "value": bytes(range(256)) * 40,
        "key": "ключ".encode(),
        "timestamp": 1_700_000_000_002,
        "headers": [("a", b"1"), ("a", None), ("empty", b""), ("ü", b"\xff\x00")],
    },
    *(
        {"value": b"v%d" % n * (n % 50), "key": b"%d" % n, "timestamp": 1_700_000_000_003 + n}
        for n in range(200)
    ),
]


@pytest.mark.parametrize("codec", CODECS)
async def test_what_librdkafka_writes_we_read_byte_for_byte(broker, new_topic, write, codec):
    topic = new_topic()
    write(topic, [{**each, "partition": 0} for each in RECORDS], codec)
    async with open_consumer(broker) as consumer:
        consumer.assign(places(topic, 1))
        found = await read(consumer, len(RECORDS))
        assert [each.offset for each in found] == list(range(len(RECORDS)))
        for record, written in zip(found, RECORDS, strict=True):
            assert (record.topic, record.partition, record.timestamp_type) == (topic, 0, 0)
            assert (record.key, record.value) == (written.get("key"), written["value"])
            assert (record.timestamp, record.headers) == (
                written["timestamp"],
                tuple(written.get("headers", ())),
            )
        consumer.seek_to_beginning()
        rows = []
        while len(rows) < len(RECORDS):
            rows += (await consumer.poll_arrow(5_000, with_headers=True)).to_pylist()
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (each.offset, each.key, each.value) for each in found
    ]
    assert [tuple((h["key"], h["value"]) for h in row["headers"]) for row in rows] == [
        each.headers for each in found
    ]


async def test_log_append_time_is_the_brokers(broker, new_topic, write):
    topic = new_topic(message_timestamp_type="LogAppendTime")
    write(topic, [{"value": b"a", "timestamp": 1_600_000_000_000}] * 20)
    async with open_consumer(broker) as consumer:
        consumer.assign(places(topic, 1))
        found = await read(consumer, 20)
    assert {each.timestamp_type for each in found} == {1}
    assert min(each.timestamp for each in found) > 1_600_000_000_000


async def test_many_partitions_come_in_order_each_and_with_bounded_calls(broker, new_topic, write):
    topic = new_topic(20)
    write(topic, [{"value": b"%d" % n, "partition": n % 20} for n in range(4000)])
    async with open_consumer(broker, prefetch_max_bytes=20_000, max_poll_records=77) as consumer:
        consumer.assign(places(topic, 20))
        seen = {place: [] for place in places(topic, 20)}
        while sum(map(len, seen.values())) < 4000:
            got = await consumer.getmany(timeout_ms=5_000)
            assert 0 < sum(map(len, got.values())) <= 77
            for place, records in got.items():
                seen[place] += [each.offset for each in records]
        assert all(offsets == list(range(200)) for offsets in seen.values())
        assert await consumer.end_offsets(places(topic, 20)) == dict.fromkeys(places(topic, 20), 200)


async def test_seeking_pausing_and_times(broker, new_topic, write):
    topic = new_topic(2)
    first, second = places(topic, 2)
    for n in range(10):
        write(topic, [{"value": b"%d" % n, "partition": p, "timestamp": 1_000_000 + n} for p in (0, 1)])
    async with open_consumer(broker) as consumer:
        consumer.assign([first, second])
        consumer.pause(second)
        assert {each.partition for each in await read(consumer, 10)} == {0}
        consumer.resume(second)
        assert {each.partition for each in await read(consumer, 10)} == {1}
        consumer.seek(first, 7)
        assert [each.offset for each in await read(consumer, 3)] == [7, 8, 9]
        assert await consumer.offsets_for_times({first: 1_000_004, second: 2_000_000}) == {
            first: (4, 1_000_004),
            second: None,
        }
        consumer.seek_to_time(1_000_008, second)
        assert [each.offset for each in await read(consumer, 2)] == [8, 9]
        consumer.seek(first, 500)
        assert [each.offset for each in await read(consumer, 10)] == list(range(10))  # reset: earliest


def test_the_synchronous_twin_iterates_polls_and_listens(broker, new_topic, write):
    topic = new_topic(2)
    write(topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(100)])
    seen = []

    class Commits(RebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            consumer.commit()
            seen.append(consumer.committed(partitions))

    group_id = f"g-{new_uuid().hex}"
    with Consumer(
        broker.address, group_id=group_id, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic], listener=Commits())
        records = list(itertools.islice(consumer, 60))
        got = 0
        while got < 40:
            got += sum(map(len, consumer.poll(1_000).values()))
        assert consumer.position(TopicPartition(topic, 0)) == 50
        consumer.seek_to_beginning()
        assert consumer.poll_arrow(5_000).num_rows > 0
        consumer.seek(TopicPartition(topic, 0), 50)
        consumer.seek(TopicPartition(topic, 1), 50)
    assert len({(each.partition, each.offset) for each in records}) == 60
    assert [{each.offset for each in some.values()} for some in seen] == [{50}]


def test_threads_may_share_the_synchronous_consumer(broker, new_topic, write):
    import threading

    topic = new_topic(2)
    write(topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(2000)])
    seen: list[tuple[int, int]] = []
    with Consumer(broker.address, auto_offset_reset="earliest") as consumer:
        consumer.assign(places(topic, 2))

        def work() -> None:
            while len(seen) < 2000:
                for records in consumer.poll(200, 7).values():
                    seen.extend((each.partition, each.offset) for each in records)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON_S)
    assert len(seen) == len(set(seen)) == 2000


async def test_a_topic_that_is_deleted_under_the_consumer_is_an_error_that_says_so(
    broker, admin, new_topic, write
):
    topic, other = new_topic(1), new_topic(1)
    write(topic, [{"value": b"a"}])
    async with open_consumer(broker) as consumer:
        consumer.assign([*places(topic, 1), *places(other, 1)])
        assert len(await read(consumer, 1)) == 1
        admin.delete_topics([topic])[topic].result(SOON_S)
        with pytest.raises(UnknownTopicOrPartition, match=topic):
            await read(consumer, 1)
        write(other, [{"value": b"b"}])
        found = []
        while not found:
            try:
                found = await read(consumer, 1)
            except UnknownTopicOrPartition:
                continue
        assert found[0].topic == other
