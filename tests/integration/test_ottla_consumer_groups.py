"""Our consumer in groups of both kinds, against a broker.

With OTTLA_TEST_BOOTSTRAP the same table runs against Apache Kafka (tests/interop/apache_kafka.py).
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import NewPartitions, NewTopic
from tests.integration.ottla_consumers import (
    PROTOCOLS,
    QUICK_GROUPS,
    SOON_S,
    Notes,
    group_options,
    open_consumer,
    places,
    read,
    until,
)

from ottla.client.consumer import CommitFailed
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.errors import FencedInstanceId

BROKER_SETTINGS = QUICK_GROUPS


@pytest.mark.parametrize(("protocol", "assignor"), PROTOCOLS)
async def test_a_group_shares_partitions_and_continues_where_it_was(
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
async def test_static_members_return_to_the_same_partitions(broker, new_topic, protocol, assignor):
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
async def test_a_member_that_does_not_return_for_records_loses_its_share(
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
            with pytest.raises(CommitFailed, match="the group has rebalanced"):
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
