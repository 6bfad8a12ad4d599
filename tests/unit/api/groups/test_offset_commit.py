"""OffsetCommit, from bytes to bytes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit import v4, v9
from tests.unit.api.groups.members import stable_member
from tests.unit.api.groups.offset_requests import codes, commit, commit_by_id
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.coordinator.group.records import OffsetKey, OffsetValue, Record

OK = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition


def stored(bench: CoordinatorBench) -> dict[object, object]:
    return {record.key: record.value for record in bench.records() if record is not None}


@pytest.mark.parametrize(("version", "schema"), [(each, v4 if each < 5 else v9) for each in range(2, 10)])
async def test_pitfall_20_offsets_are_kept_in_every_version_and_unknown_partitions_refused(
    bench: CoordinatorBench, version: int, schema: object
) -> None:
    request = commit({"orders": {0: 5, 2: 6, 9: 7, -1: 8}, "nowhere": {0: 1}}, schema)
    answer = await bench.ask(request, version)
    assert codes(answer) == [
        ("orders", [(0, OK), (2, OK), (9, UNKNOWN), (-1, UNKNOWN)]),
        ("nowhere", [(0, UNKNOWN)]),
    ]
    epoch = 6 if version >= 6 else -1
    assert stored(bench) == {
        OffsetKey("g", "orders", 0): OffsetValue(5, epoch, "note", bench.clock.now_ms),
        OffsetKey("g", "orders", 2): OffsetValue(6, epoch, "note", bench.clock.now_ms),
    }


async def test_topics_are_named_by_id_in_the_newest_version(bench: CoordinatorBench) -> None:
    topic_id = bench.cluster.image.topics["orders"].topic_id
    stranger = UUID(int=77)
    answer = await bench.ask(commit_by_id({topic_id: {0: 5, 9: 1}, stranger: {0: 1}}))
    assert codes(answer) == [
        (topic_id, [(0, OK), (9, UNKNOWN)]),
        (stranger, [(0, ErrorCode.unknown_topic_id)]),
    ]
    assert OffsetKey("g", "orders", 0) in stored(bench)


async def test_a_commit_costs_no_task(bench: CoordinatorBench) -> None:
    assert isinstance(bench.send(commit({"orders": {0: 5}})), bytes)


async def test_null_metadata_is_kept_as_empty(bench: CoordinatorBench) -> None:
    await bench.ask(commit({"orders": {0: 5}}, metadata=None))
    (value,) = stored(bench).values()
    assert isinstance(value, OffsetValue)
    assert value.metadata == ""


async def test_an_old_client_may_ask_for_a_retention_of_its_own(bench: CoordinatorBench) -> None:
    request = commit({"orders": {0: 5}}, v4, retention_time=timedelta(minutes=1))
    await bench.ask(request, 2)
    (value,) = stored(bench).values()
    assert isinstance(value, OffsetValue)
    assert value.expire_ms == bench.clock.now_ms + 60_000


async def test_what_the_coordinator_refuses_is_refused_for_every_partition_that_exists(
    bench: CoordinatorBench,
) -> None:
    member_id = await stable_member(bench)
    wrong = commit({"orders": {0: 1, 1: 1, 9: 1}}, member_id=member_id, generation_id_or_member_epoch=7)
    illegal = ErrorCode.illegal_generation
    assert codes(await bench.ask(wrong)) == [("orders", [(0, illegal), (1, illegal), (9, UNKNOWN)])]
    right = commit({"orders": {0: 1}}, member_id=member_id, generation_id_or_member_epoch=1)
    assert codes(await bench.ask(right)) == [("orders", [(0, OK)])]


@pytest.mark.parametrize(
    ("version", "code"), [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)]
)
async def test_a_generation_without_a_group_is_refused_in_words_that_the_client_knows(
    bench: CoordinatorBench, version: int, code: ErrorCode
) -> None:
    request = commit({"orders": {0: 1}}, member_id="m", generation_id_or_member_epoch=1)
    assert codes(await bench.ask(request, version)) == [("orders", [(0, code)])]


async def test_too_much_metadata_is_refused_for_its_partition_alone(bench: CoordinatorBench) -> None:
    long = commit({"orders": {0: 1}}, metadata="x" * 4097)
    short = commit({"orders": {1: 1}}, metadata="x" * 4096)
    both = replace(long, topics=long.topics + short.topics)
    assert codes(await bench.ask(both)) == [
        ("orders", [(0, ErrorCode.offset_metadata_too_large)]),
        ("orders", [(1, OK)]),
    ]


async def test_a_commit_of_nothing_that_exists_needs_no_coordinator(bench: CoordinatorBench) -> None:
    await bench.groups.stop()
    assert codes(await bench.ask(commit({"nowhere": {0: 1}}))) == [("nowhere", [(0, UNKNOWN)])]
    answer = await bench.ask(commit({"orders": {0: 1}}))
    assert codes(answer) == [("orders", [(0, ErrorCode.coordinator_not_available)])]


async def test_an_answer_that_waits_for_the_disk_comes_when_it_is_there() -> None:
    bench = CoordinatorBench(log_flush_interval_messages=1)
    await bench.start()
    await bench.create_topics("orders")
    await bench.groups.find("g")
    assert codes(await bench.ask(commit({"orders": {0: 1}}))) == [("orders", [(0, OK)])]
    assert (
        Record(OffsetKey("g", "orders", 0), OffsetValue(1, 6, "note", bench.clock.now_ms)) in bench.records()
    )
    await bench.stop()
