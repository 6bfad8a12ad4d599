"""The arithmetic of a source: offsets in the checkpoint, shares of a limit, tasks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.common.ids import TopicPartition
from ottla.spark.source.offsets import (
    SourceOffset,
    check_all_given,
    limit_by_lag,
    parse_assignment,
    parse_positions,
)
from ottla.spark.source.planning import RECORDS_PER_TASK, OffsetRange, plan_tasks

A, B, C = (TopicPartition("t", index) for index in range(3))
lags = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 1_000), min_size=1)


def test_an_offset_is_read_from_the_checkpoint_unchanged() -> None:
    offset = SourceOffset({A: 3, B: 0}, {"t": "id"}, "group", {A: 1, B: 0})
    assert SourceOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_an_offset_of_sparks_own_source_is_understood() -> None:
    assert SourceOffset.from_json({"t": {"0": 3, "1": 5}}) == SourceOffset({A: 3, B: 5})


def test_the_end_of_the_first_batch_knows_where_it_began() -> None:
    initial = SourceOffset({A: 5}, {"t": "x"}, "g", {A: 5})
    first = initial.advanced_to({A: 9}, {"t": "x"})
    second = first.advanced_to({A: 12}, {"t": "x"})
    assert first.began == {A: 5}
    assert second.began is None
    assert initial.advanced_to({A: 5}, {"t": "x"}).advanced_to({A: 7}, {"t": "x"}).began == {A: 5}


@given(lags, st.integers(1, 500))
def test_a_limit_is_shared_by_lag_and_starves_no_partition(lag: dict[TopicPartition, int], most: int) -> None:
    start = dict.fromkeys(lag, 100)
    latest = {at: 100 + each for at, each in lag.items()}
    ends = limit_by_lag(start, latest, most)
    taken = {at: ends[at] - 100 for at in lag}
    assert all(0 <= taken[at] <= lag[at] for at in lag)
    assert all(taken[at] > 0 for at in lag if lag[at])
    assert sum(taken.values()) <= most + len(lag) or ends == latest


def test_a_small_batch_is_one_task_and_a_large_one_has_a_task_per_partition() -> None:
    small = [OffsetRange("t", None, index, 0, 100) for index in range(8)]
    large = [OffsetRange("t", None, index, 0, RECORDS_PER_TASK) for index in range(8)]
    assert [len(each) for each in plan_tasks(small)] == [8]
    assert [len(each) for each in plan_tasks(large)] == [1] * 8
    assert plan_tasks([]) == []


@settings(deadline=None)  # up to 30,000 tasks
@given(
    st.lists(st.integers(0, 5_000), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 700),
)
def test_whatever_the_tasks_every_offset_is_read_once(
    counts: list[int], min_tasks: int | None, max_records: int | None
) -> None:
    ranges = [OffsetRange("t", None, index, 10, 10 + count) for index, count in enumerate(counts)]
    tasks = plan_tasks(ranges, min_tasks, max_records)
    read = sorted((each.partition, each.start, each.end) for task in tasks for each in task)
    for index, count in enumerate(counts):
        mine = [(start, end) for partition, start, end in read if partition == index]
        edges = [10, *(end for _, end in mine)]
        assert [start for start, _ in mine] == edges[:-1]
        assert edges[-1] == 10 + count
    if max_records is not None:
        assert all(each.count <= max_records for task in tasks for each in task)


def test_only_the_last_part_of_a_partition_is_live() -> None:
    live = OffsetRange("t", None, 0, 0, 100, is_live=True)
    parts = [each for task in plan_tasks([live], min_tasks=4) for each in task]
    assert [each.is_live for each in parts] == [False, False, False, True]
    empty = OffsetRange("t", None, 0, 0, 0, is_live=True)
    assert plan_tasks([empty]) == [[empty]]


@pytest.mark.parametrize("text", ["[]", "{", '{"t": 3}', '{"t": {"x": 1}}', '{"t": {"0": "far"}}'])
def test_offsets_that_make_no_sense_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"startingOffsets must look like"):
        parse_positions("startingOffsets", text)


def test_an_assignment_names_partitions() -> None:
    assert parse_assignment('{"t": [0, 2]}') == {A, C}
    with pytest.raises(ValueError, match="assign must look like"):
        parse_assignment('{"t": 0}')


def test_offsets_must_name_every_partition() -> None:
    check_all_given("startingOffsets", [A, B], [A, B])
    with pytest.raises(ValueError, match=r"Unknown: t-2\. Missing: t-1"):
        check_all_given("startingOffsets", [A, C], [A, B])
