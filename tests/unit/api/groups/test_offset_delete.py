"""OffsetDelete, from bytes to bytes."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0 import OffsetDeleteRequest
from kio.schema.offset_delete.v0.request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tests.unit.api.groups.members import stable_member
from tests.unit.api.groups.offset_requests import commit, fetch
from tests.unit.coordinator.coordinator_bench import CoordinatorBench


def delete(topics: dict[str, tuple[int, ...]], group_id: str = "g") -> OffsetDeleteRequest:
    asked: Any = tuple(
        OffsetDeleteRequestTopic(
            name=name,  # type: ignore[arg-type]
            partitions=tuple(OffsetDeleteRequestPartition(partition_index=each) for each in indexes),  # type: ignore[arg-type]
        )
        for name, indexes in topics.items()
    )
    return OffsetDeleteRequest(group_id=group_id, topics=asked)  # type: ignore[arg-type]


def codes(answer: Any) -> list[tuple[str, int, ErrorCode]]:
    return [
        (topic.name, each.partition_index, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]


async def test_offsets_are_forgotten_and_unknown_partitions_refused(bench: CoordinatorBench) -> None:
    await bench.ask(commit({"orders": {0: 5, 1: 6}}))
    answer = await bench.ask(delete({"orders": (0, 2, 9), "nowhere": (0,)}))
    unknown = ErrorCode.unknown_topic_or_partition
    assert answer.error_code == ErrorCode.none
    assert codes(answer) == [
        ("orders", 0, ErrorCode.none),
        ("orders", 2, ErrorCode.none),
        ("orders", 9, unknown),
        ("nowhere", 0, unknown),
    ]
    (topic,) = (await bench.ask(fetch(None))).topics
    assert [each.partition_index for each in topic.partitions] == [1]


async def test_topics_in_use_are_refused(bench: CoordinatorBench) -> None:
    await stable_member(bench)
    answer = await bench.ask(delete({"orders": (0,)}))
    assert codes(answer) == [("orders", 0, ErrorCode.group_subscribed_to_topic)]


async def test_errors_of_the_group_are_reported_at_the_top(bench: CoordinatorBench) -> None:
    assert (await bench.ask(delete({"orders": (0,)}, "other"))).error_code == ErrorCode.group_id_not_found
    assert (await bench.ask(delete({"orders": (0,)}, ""))).error_code == ErrorCode.invalid_group_id
    await stable_member(bench, protocol_type="connect")
    assert (await bench.ask(delete({"orders": (0,)}))).error_code == ErrorCode.non_empty_group
