"""Checkpoints of tasks that a connector no longer has: what their queries have reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integration.connect_stage import made_checkpoint

from ottla.common.ids import TopicPartition
from ottla.connect.connectors.datagen import DatagenSource
from ottla.connect.connectors.files import FileSink
from ottla.connect.engine.spec import checkpoint_name
from ottla.connect.herder.old_checkpoints import places_ahead, sink_positions, source_history


@pytest.mark.parametrize(
    ("stored", "ahead"),
    [
        ({}, {"a": 3, "b": 7}),  # no report has arrived
        ({"a": 1, "b": 7}, {"a": 3}),  # it began there
        ({"a": 2, "b": 7}, {"a": 3}),  # reports are behind
        ({"a": 3, "b": 7}, {}),
        ({"a": 9, "b": 8}, {}),  # another task came later
    ],
)
def test_a_place_is_stored_unless_another_task_was_further(
    tmp_path: Path, stored: dict[str, Any], ahead: dict[str, Any]
) -> None:
    ends = [{"a": 2, "b": 7}, {"a": 3, "b": 7}, {"a": 4, "b": 7}]
    history = source_history(made_checkpoint(tmp_path / "c", ends, done=2, base={"a": 1}))
    assert places_ahead(history, stored) == ahead


def test_what_a_checkpoint_without_batches_says(tmp_path: Path) -> None:
    assert source_history(tmp_path) == []
    assert sink_positions(tmp_path) == {}
    begun = made_checkpoint(tmp_path / "c", [{"t": {"0": 5}}], done=0)
    assert sink_positions(begun) == {}
    assert source_history(begun) == []


def test_a_sink_is_behind_its_last_batch_that_is_done(tmp_path: Path) -> None:
    ends = [{"t": {"0": 5, "1": 2}}, {"t": {"0": 9, "1": 2}}]
    found = sink_positions(made_checkpoint(tmp_path / "c", ends, done=1))
    assert found == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 2}


def test_a_checkpoint_is_named_by_what_its_task_reads() -> None:
    one = {"topic": "t", "task.number": "0", "rate": "1"}
    assert checkpoint_name(DatagenSource, 0, one) == checkpoint_name(DatagenSource, 0, {**one, "rate": "2"})
    assert checkpoint_name(DatagenSource, 0, one) != checkpoint_name(
        DatagenSource, 0, {**one, "task.number": "1"}
    )
    sink = {"topics": "t", "task.partitions": '{"t":[0]}'}
    assert checkpoint_name(FileSink, 1, sink) != checkpoint_name(FileSink, 1, {"topics": "t"})
