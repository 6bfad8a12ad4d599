"""OffsetFetch, from bytes to bytes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.api.groups.offset_requests import commit, fetch, fetch_by_id, fetch_groups
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

OK = ErrorCode.none


def found(topics: Any) -> dict[object, list[tuple[int, int, int, str | None, ErrorCode]]]:
    return {
        topic.topic_id if hasattr(topic, "topic_id") else topic.name: [
            (
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
                each.error_code,
            )
            for each in topic.partitions
        ]
        for topic in topics
    }


@pytest.mark.parametrize("version", range(1, 8))
async def test_offsets_are_reported_in_every_version_of_one_group(
    bench: CoordinatorBench, version: int
) -> None:
    await bench.ask(commit({"orders": {0: 5}}))
    answer = await bench.ask(fetch({"orders": (0, 1), "nowhere": (0,)}), version)
    epoch = 6 if version >= 5 else -1
    assert answer.error_code == OK
    assert found(answer.topics) == {
        "orders": [(0, 5, epoch, "note", OK), (1, -1, -1, "", OK)],
        "nowhere": [(0, -1, -1, "", OK)],
    }


@pytest.mark.parametrize("version", range(2, 8))
async def test_all_offsets_of_a_group_are_reported(bench: CoordinatorBench, version: int) -> None:
    await bench.ask(commit({"orders": {0: 5, 1: 6}}))
    assert [each[:2] for each in found((await bench.ask(fetch(None), version)).topics)["orders"]] == [
        (0, 5),
        (1, 6),
    ]
    assert (await bench.ask(fetch(None, "other"), version)).topics == ()


@pytest.mark.parametrize("version", [8, 9])
async def test_several_groups_are_reported_at_once(bench: CoordinatorBench, version: int) -> None:
    await bench.ask(commit({"orders": {0: 5}}))
    await bench.ask(commit({"orders": {1: 7}}, group_id="h"))
    answer = await bench.ask(fetch_groups({"g": {"orders": (0, 1)}, "h": None, "other": None}), version)
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        ("g", OK),
        ("h", OK),
        ("other", OK),
    ]
    assert [found(each.topics) for each in answer.groups] == [
        {"orders": [(0, 5, 6, "note", OK), (1, -1, -1, "", OK)]},
        {"orders": [(1, 7, 6, "note", OK)]},
        {},
    ]


async def test_topics_are_named_by_id_in_the_newest_version(bench: CoordinatorBench) -> None:
    await bench.ask(commit({"orders": {0: 5}}))
    topic_id, stranger = bench.cluster.image.topics["orders"].topic_id, UUID(int=77)
    (group,) = (await bench.ask(fetch_by_id({topic_id: (0, 1), stranger: (3,)}))).groups
    assert found(group.topics) == {
        topic_id: [(0, 5, 6, "note", OK), (1, -1, -1, "", OK)],
        stranger: [(3, -1, -1, "", ErrorCode.unknown_topic_id)],
    }
    (group,) = (await bench.ask(fetch_by_id(None))).groups
    assert found(group.topics) == {topic_id: [(0, 5, 6, "note", OK)]}


async def test_the_oldest_version_tells_an_error_with_every_partition(bench: CoordinatorBench) -> None:
    await bench.groups.stop()
    unavailable = ErrorCode.coordinator_not_available
    answer = await bench.ask(fetch({"orders": (0,)}), 1)
    assert found(answer.topics) == {"orders": [(0, -1, -1, "", unavailable)]}
    answer = await bench.ask(fetch({"orders": (0,)}), 2)
    assert (answer.error_code, answer.topics) == (unavailable, ())
    (group,) = (await bench.ask(fetch_groups({"g": None}))).groups
    assert (group.error_code, group.topics) == (unavailable, ())
    (group,) = (await bench.ask(fetch_by_id(None))).groups
    assert (group.error_code, group.topics) == (unavailable, ())
