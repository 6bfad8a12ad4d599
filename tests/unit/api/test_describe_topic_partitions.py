from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.describe_topic_partitions.v0 import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.request import Cursor, TopicRequest
from kio.schema.errors import ErrorCode

from ottla.controller.machine import NewTopic
from ottla.metadata.records import PartitionChanged
from ottla.protocol.errors import InvalidRequest


def request(
    *topics: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    at: Any = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])  # type: ignore[arg-type]
    return DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in topics),  # type: ignore[arg-type]
        response_partition_limit=limit,  # type: ignore[arg-type]
        cursor=at,
    )


async def test_topics_are_described_in_order_with_ids_and_leaders(bench: Any) -> None:
    await bench.controller.create_topics([NewTopic("orders", 2), NewTopic("basket", 1)])
    response = await bench.ask(request())
    basket, orders = response.topics
    assert (basket.name, orders.name) == ("basket", "orders")
    assert orders.topic_id == bench.image.topics["orders"].topic_id
    assert [each.partition_index for each in orders.partitions] == [0, 1]
    first = orders.partitions[0]
    assert (first.leader_id, first.leader_epoch, first.error_code) == (1, 0, ErrorCode.none)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ((1,), (1,), ())
    assert response.next_cursor is None
    operations = orders.topic_authorized_operations
    assert [bit for bit in range(32) if operations >> bit & 1] == [3, 4, 5, 6, 7, 8, 10, 11]


async def test_unknown_and_illegal_names_are_answered_if_they_were_asked_for(bench: Any) -> None:
    response = await bench.ask(request("nothing", "b a d"))
    assert [(each.name, each.error_code, each.topic_id) for each in response.topics] == [
        ("b a d", ErrorCode.invalid_topic_exception, None),
        ("nothing", ErrorCode.unknown_topic_or_partition, None),
    ]


async def test_pitfall_12_an_unknown_leader_is_minus_one(bench: Any) -> None:
    topic = await bench.create_topic("orders")
    lost = PartitionChanged(topic.topic_id, 0, 9, 3, (9,), (9,), 1)
    await bench.cluster.publish(bench.image.apply([lost]))
    (result,) = (await bench.ask(request("orders"))).topics
    (partition,) = result.partitions
    assert (partition.leader_id, partition.leader_epoch) == (-1, 3)
    assert partition.error_code == ErrorCode.leader_not_available
    assert partition.offline_replicas == (9,)


async def walk(bench: Any, limit: int, names: tuple[str, ...]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    cursor = None
    while True:
        response = await bench.ask(request(*names, limit=limit, cursor=cursor))
        page = [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]
        assert 0 < len(page) <= max(1, limit)
        found += page
        if response.next_cursor is None:
            return found
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)


# The fixture is only a class: every example makes its own bench.
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5), limit=st.integers(-1, 8), named=st.booleans()
)
async def test_pages_put_together_are_the_whole(
    make_bench: Any, sizes: list[int], limit: int, named: bool
) -> None:
    bench = make_bench()
    await bench.start()
    topics = [NewTopic(f"t{number}", size) for number, size in enumerate(sizes)]
    await bench.controller.create_topics(topics)
    names = tuple(each.name for each in topics) if named else ()
    expected = [(each.name, index) for each in topics for index in range(each.partition_count)]
    assert await walk(bench, limit, names) == expected
    await bench.controller.stop()


async def test_the_broker_has_a_limit_of_its_own(make_bench: Any) -> None:
    bench = make_bench(max_request_partition_size_limit="3")
    await bench.start()
    await bench.controller.create_topics([NewTopic("orders", 5)])
    response = await bench.ask(request(limit=2000))
    assert len(response.topics[0].partitions) == 3
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("orders", 3)
    await bench.controller.stop()


@pytest.mark.parametrize("cursor", [("orders", -1), ("zebra", 0)])
async def test_a_cursor_that_points_nowhere_is_refused(bench: Any, cursor: tuple[str, int]) -> None:
    await bench.create_topic("orders")
    response = await bench.ask(request("orders", cursor=cursor))
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("orders", ErrorCode.invalid_request)
    ]
    assert response.next_cursor is None


async def test_a_cursor_that_points_nowhere_is_an_error_if_there_is_no_topic_to_say_it_of(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        await bench.ask(request(cursor=("orders", -1)))


async def test_a_cursor_at_a_topic_deleted_meanwhile_continues_with_the_next(bench: Any) -> None:
    await bench.controller.create_topics([NewTopic("a"), NewTopic("c")])
    response = await bench.ask(request(cursor=("b", 7)))
    assert [each.name for each in response.topics] == ["c"]
