"""The positions in a checkpoint: read, moved, and made readable for Spark's connector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.common.ids import TopicPartition
from ottla.spark.batch_plans import plan_of
from ottla.spark.checkpoint_files import CheckpointFiles, CheckpointProblem

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def offset(a: int, b: int) -> str:
    ours = {"@ids": {"t": "id"}, "@group": "g", "@from": {"t": {"0": 0, "1": 0}}}
    return json.dumps({"t": {"0": a, "1": b}, **ours})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint: batches 0 and 1 are done, 2 is planned; its second source reads files."""
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    (tmp_path / "metadata").write_text('{"id":"5f0c2f2e"}')
    for number, (a, b) in enumerate([(5, 5), (10, 20), (30, 30)]):
        text = "\n".join(("v1", SETTINGS, offset(a, b), '{"logOffset":7}'))
        (tmp_path / "offsets" / str(number)).write_text(text)
        (tmp_path / "offsets" / f".{number}.crc").write_text("checksum")
    for number in (0, 1):
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")
    return tmp_path


def test_a_query_is_where_its_last_finished_batch_ended(folder: Path) -> None:
    files = CheckpointFiles(folder)
    assert files.query_id == "5f0c2f2e"
    assert files.last_done.positions == {A: 10, B: 20}
    assert files.not_done == [2]


def test_a_move_changes_where_the_next_batch_starts_and_nothing_else(folder: Path) -> None:
    CheckpointFiles(folder).move({B: 15})
    files = CheckpointFiles(folder)
    assert files.last_done.positions == {A: 10, B: 15}
    assert files.not_done == []
    lines = (folder / "offsets/1").read_text().splitlines()
    assert (lines[0], lines[1], lines[3]) == ("v1", SETTINGS, '{"logOffset":7}')
    moved = json.loads(lines[2])
    assert (moved["@ids"], moved["@group"]) == ({"t": "id"}, "g")
    assert "@from" not in moved
    assert sorted(each.name for each in (folder / "offsets").iterdir()) == [".0.crc", "0", "1"]


def test_the_plan_of_a_batch_is_its_positions_and_its_settings(folder: Path) -> None:
    plans = [plan_of(folder, each) for each in (0, 1, 2)]
    assert len({*plans}) == 3
    assert None not in plans
    assert plan_of(folder, 3) is None
    CheckpointFiles(folder).export()
    assert [plan_of(folder, each) for each in (0, 1, 2)] == plans
    file = folder / "offsets" / "2"
    text = file.read_text()
    for before, after in (
        ('"1": 30', '"1": 31'),
        ('"batchTimestampMs":1', '"batchTimestampMs":2'),
        (":7}", ":8}"),
    ):
        assert before in text
        file.write_text(text.replace(before, after))
        assert plan_of(folder, 2) != plans[2]


def test_an_exported_checkpoint_has_offsets_only(folder: Path) -> None:
    files = CheckpointFiles(folder)
    assert files.export() == 3
    assert files.export() == 0
    lines = (folder / "offsets/2").read_text().splitlines()
    assert json.loads(lines[2]) == {"t": {"0": 30, "1": 30}}
    assert lines[3] == '{"logOffset":7}'


def test_what_is_no_checkpoint_or_has_no_batch_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointProblem, match="is not the checkpoint of a query"):
        CheckpointFiles(tmp_path / "elsewhere")
    (folder / "offsets/1").write_text("v2\n{}")
    with pytest.raises(CheckpointProblem, match="is not of version v1"):
        assert CheckpointFiles(folder).last_done
    for number in (0, 1):
        (folder / "commits" / str(number)).unlink()
    with pytest.raises(CheckpointProblem, match="has finished no batch yet"):
        assert CheckpointFiles(folder).last_done
