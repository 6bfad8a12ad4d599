"""Our consumer against a broker: what librdkafka writes it reads; alone, in groups of both kinds, sync too.

With OTTLA_TEST_BOOTSTRAP the same table runs against Apache Kafka (tests/interop/apache_kafka.py).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.client.consumer import AsyncConsumer, CommitFailed, Consumer, RebalanceListener
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.errors import FencedInstanceId, UnknownTopicOrPartition

BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PROTOCOLS = (
    ("classic", "range"),
    ("classic", "roundrobin"),
    ("classic", "sticky"),
    ("classic", "cooperative-sticky"),
    ("consumer", None),
)
SOON_S = 30
_numbers = itertools.count()


@pytest.fixture(scope="module")
def admin(broker):
    return AdminClient({"bootstrap.servers": broker.address})


@pytest.fixture
def new_topic(admin):
    made = []

    def create(partitions=1, **configs):
        name = f"consumer.{new_uuid().hex[:8]}.{next(_numbers)}"
        topic = NewTopic(name, partitions, 1, config={k.replace("_", "."): v for k, v in configs.items()})
        admin.create_topics([topic])[name].result(SOON_S)
        made.append(name)
        return name

    yield create
    for each in admin.delete_topics(made).values() if made else ():
        if each.exception(SOON_S):
            continue


@pytest.fixture(scope="module")
def write(broker):
    """Write records with librdkafka."""

    def write(topic, records, codec="none"):
        producer = LibrdkafkaProducer(
            {"bootstrap.servers": broker.address, "compression.type": codec, "linger.ms": 20}
        )
        for record in records:
            producer.produce(topic, **record)
        assert producer.flush(SOON_S) == 0

    return write


def places(topic, count):
    return [TopicPartition(topic, index) for index in range(count)]


def open_consumer(broker, **options):
    options = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300} | options
    if options.get("group_protocol") == "consumer":
        del options["heartbeat_interval_ms"]
    return AsyncConsumer(broker.address, **options)


async def read(consumer, count, within_s=SOON_S):
    """Read until so many records are there."""
    found = []
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            found += records
    return found


async def until(condition, *consumers):
    """Let consumers ask for records until a condition holds; return what they got."""
    found = []
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline, f"{[sorted(each.assignment()) for each in consumers]}"
        for consumer in consumers:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                found += records
    return found


def group_options(protocol, assignor):
    options = {"group_protocol": protocol, "group_id": f"g-{new_uuid().hex[:10]}"}
    if assignor is not None:
        options["partition_assignment_strategy"] = assignor
    return options


class Notes(RebalanceListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, set[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.notes.append(("assigned", set(partitions)))

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.notes.append(("revoked", set(partitions)))

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.notes.append(("lost", set(partitions)))


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


@pytest.mark.parametrize(("protocol", "assignor"), PROTOCOLS)
async def test_a_group_shares_partitions_and_goes_on_where_it_was(
    broker, new_topic, write, protocol, assignor
):
    topic = new_topic(6)
    write(topic, [{"value": b"%d" % n, "partition": n % 6} for n in range(600)])
    options = group_options(protocol, assignor)
    notes = Notes()
    async with open_consumer(broker, **options) as first:
        first.subscribe([topic], listener=notes)
        found = await read(first, 600)
        assert len({(each.partition, each.offset) for each in found}) == len(found) == 600
        assert first.assignment() == set(places(topic, 6))
        assert notes.notes[0] == ("assigned", set(places(topic, 6)))
        async with open_consumer(broker, **options) as second:
            second.subscribe(topic)
            again = await until(
                lambda: len(first.assignment()) == len(second.assignment()) == 3, first, second
            )
            assert again == []  # what the first had read it committed before it gave it up
            assert first.assignment() | second.assignment() == set(places(topic, 6))
            assert not first.assignment() & second.assignment()
            write(topic, [{"value": b"new", "partition": n} for n in range(6)])
            got = []
            while len(got) < 6:
                got += await read(first, 1, 0.2) + await read(second, 1, 0.2)
            assert sorted(each.partition for each in got) == list(range(6))
        await until(lambda: len(first.assignment()) == 6, first)
        await first.commit()
        committed = await first.committed(places(topic, 6))
        assert {each.offset for each in committed.values()} == {101}
    given_up = {place for kind, some in notes.notes if kind == "revoked" for place in some}
    assert given_up == set(places(topic, 6))
    assert not [kind for kind, _ in notes.notes if kind == "lost"]


async def test_cooperative_members_keep_what_stays_theirs(broker, new_topic):
    topic = new_topic(4)
    options = group_options("classic", "cooperative-sticky")
    notes = Notes()
    async with open_consumer(broker, **options) as first, open_consumer(broker, **options) as second:
        first.subscribe([topic], listener=notes)
        await until(lambda: len(first.assignment()) == 4, first)
        second.subscribe([topic])
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
        kept = first.assignment()
    revoked = [some for kind, some in notes.notes if kind == "revoked"]
    assert len(revoked[0]) == 2
    assert not revoked[0] & kept


@pytest.mark.parametrize(("protocol", "assignor"), [PROTOCOLS[0], PROTOCOLS[4]])
async def test_static_members_come_back_to_the_same_partitions(broker, new_topic, protocol, assignor):
    topic = new_topic(4)
    options = group_options(protocol, assignor)
    other = open_consumer(broker, **options, group_instance_id="b", topics=topic)
    async with other:
        async with open_consumer(broker, **options, group_instance_id="a", topics=topic) as member:
            await until(lambda: len(member.assignment()) == len(other.assignment()) == 2, member, other)
            had, rest = member.assignment(), other.assignment()
        async with open_consumer(broker, **options, group_instance_id="a", topics=topic) as member:
            await until(lambda: len(member.assignment()) == 2, member, other)
            assert (member.assignment(), other.assignment()) == (had, rest)


async def test_a_second_process_with_the_same_instance_id_fences_the_first(broker, new_topic):
    topic = new_topic(2)
    options = group_options("classic", "range") | {"group_instance_id": "a", "topics": topic}
    async with open_consumer(broker, **options) as first, open_consumer(broker, **options) as second:
        await until(lambda: len(first.assignment()) == 2, first)
        await until(lambda: len(second.assignment()) == 2, second)
        with pytest.raises(FencedInstanceId):
            await until(lambda: False, first)
        with pytest.raises(FencedInstanceId):  # and it stays so
            await first.getmany()


@pytest.mark.parametrize(("protocol", "assignor"), [PROTOCOLS[0], PROTOCOLS[4]])
async def test_topics_that_match_a_pattern_are_found_later_too(broker, admin, protocol, assignor):
    mark = new_uuid().hex[:8]
    options = group_options(protocol, assignor)
    names = [f"p.{mark}.1", f"p.{mark}.2"]
    admin.create_topics([NewTopic(names[0], 1, 1)])[names[0]].result(SOON_S)
    async with open_consumer(broker, **options, metadata_max_age_ms=500) as consumer:
        consumer.subscribe(pattern=f"p\\.{mark}\\..*")
        await until(lambda: consumer.assignment() == {TopicPartition(names[0], 0)}, consumer)
        admin.create_topics([NewTopic(names[1], 1, 1)])[names[1]].result(SOON_S)
        both = {TopicPartition(name, 0) for name in names}
        await until(lambda: consumer.assignment() == both, consumer)
    for each in admin.delete_topics(names).values():
        each.result(SOON_S)


async def test_partitions_that_are_added_and_topics_that_are_created_later_are_read(broker, admin, new_topic):
    topic = new_topic(1)
    options = group_options("classic", "range")
    late = f"late.{new_uuid().hex[:8]}"
    async with open_consumer(broker, **options, metadata_max_age_ms=500) as consumer:
        consumer.subscribe([topic, late])
        await until(lambda: len(consumer.assignment()) == 1, consumer)
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SOON_S)
        await until(lambda: len(consumer.assignment()) == 3, consumer)
        admin.create_topics([NewTopic(late, 1, 1)])[late].result(SOON_S)
        await until(lambda: len(consumer.assignment()) == 4, consumer)
        admin.delete_topics([late])[late].result(SOON_S)
        await until(lambda: len(consumer.assignment()) == 3, consumer)


@pytest.mark.parametrize(("protocol", "assignor"), [PROTOCOLS[0], PROTOCOLS[4]])
async def test_a_member_that_does_not_come_back_for_records_loses_its_share(
    broker, new_topic, protocol, assignor
):
    topic = new_topic(2)
    options = group_options(protocol, assignor)
    notes = Notes()
    async with open_consumer(broker, **options, max_poll_interval_ms=1_500) as stuck:
        stuck.subscribe([topic], listener=notes)
        await until(lambda: len(stuck.assignment()) == 2, stuck)
        async with open_consumer(broker, **options, topics=topic) as other:
            await until(lambda: len(other.assignment()) == 2, other)
            with pytest.raises(CommitFailed, match="the group has moved on"):
                await stuck.commit({TopicPartition(topic, 0): 0})
            await until(lambda: len(stuck.assignment()) == len(other.assignment()) == 1, stuck, other)
    assert ("lost", set(places(topic, 2))) in notes.notes


async def test_commits_in_the_background_keep_their_order_and_report(broker, new_topic):
    topic = new_topic(1)
    (place,) = places(topic, 1)
    told = []
    async with open_consumer(broker, group_id=f"g-{new_uuid().hex}", enable_auto_commit=False) as consumer:
        consumer.assign([place])
        assert await consumer.position(place) == 0  # now the broker surely knows the topic
        for offset in range(20):
            last = consumer.commit_async(
                {place: offset}, lambda offsets, error: told.append((offsets[place][0], error))
            )
        await consumer.commit({place: 20})
        await last
        assert told == [(offset, None) for offset in range(20)]


async def test_what_was_not_asked_for_again_is_not_committed(broker, new_topic, write):
    topic = new_topic(1)
    write(topic, [{"value": b"%d" % n} for n in range(10)])
    group_id = f"g-{new_uuid().hex}"
    async with open_consumer(broker, group_id=group_id, auto_commit_interval_ms=1) as consumer:
        consumer.assign(places(topic, 1))
        for _ in range(3):
            await consumer.getone(timeout_ms=5_000)
        running = consumer._running
        assert running is not None
        await running.stop()  # as if the process had died while it worked on the third record
    async with open_consumer(broker, group_id=group_id) as consumer:
        (committed,) = (await consumer.committed(places(topic, 1))).values()
        assert committed is None or committed.offset <= 2


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
