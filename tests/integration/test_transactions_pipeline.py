"""Consume, transform, produce, with the offsets in the transaction: what comes out is what went in."""

from __future__ import annotations

from pathlib import Path

from tests.integration.transaction_pipeline import Pipeline, PipelineProcess
from tests.integration.transaction_stage import BROKER_SETTINGS, Stage, stage
from tests.integration.transactions import END

__all__ = ["BROKER_SETTINGS", "stage"]


def pipeline_of(stage: Stage, source: str, sink: str, **options: int) -> Pipeline:
    """Return a pipeline from three partitions to four."""
    names = {"group": stage.name(), "transactional_id": stage.name()}
    return Pipeline(stage.library.name, stage.address, source, 3, sink, 4, **names, **options)


def fill(stage: Stage, topic: str, count: int) -> list[list[bytes]]:
    """Fill a source of three partitions and say where it ends; return what is in it."""
    values = [[b"%d:%d" % (partition, number) for number in range(count)] for partition in range(3)]
    for partition, each in enumerate(values):
        stage.fill(topic, partition, [*each, END])
    return values


def assert_is_copied(stage: Stage, pipeline: Pipeline, source: list[list[bytes]]) -> None:
    assert pipeline.problems(source, stage.read(pipeline.sink, 4)) == []
    ends = [len(each) + 1 for each in source]
    assert stage.committed(pipeline.group, *pipeline.places) == ends


def test_a_pipeline_with_aborts_copies_every_record_once(stage: Stage) -> None:
    source, sink = stage.topic(3), stage.topic(4)
    values = fill(stage, source, 40)
    pipeline = pipeline_of(stage, source, sink, abort_every=3, chunk=7)
    pipeline.run()
    assert_is_copied(stage, pipeline, values)


def test_a_pipeline_continues_where_another_one_stopped(stage: Stage) -> None:
    source, sink = stage.topic(3), stage.topic(4)
    values = fill(stage, source, 20)
    first = pipeline_of(stage, source, sink)
    with stage.library.producer(stage.address, first.transactional_id) as zombie:
        zombie.begin()
        zombie.send(sink, [first.transformed(values[0][0])])
        zombie.send_offsets(first.group, {(source, 0): 1})
        first.run()
    assert_is_copied(stage, first, values)
    more = [b"0:more"]
    stage.fill(source, 0, [*more, END])
    for partition in (1, 2):
        stage.fill(source, partition, [END])
    first.run()
    ends = [len(values[0]) + 3, len(values[1]) + 2, len(values[2]) + 2]
    assert stage.committed(first.group, *first.places) == ends


def test_two_pipelines_in_a_row_copy_only_what_was_committed(stage: Stage, tmp_path: Path) -> None:
    first, second, third = stage.topic(3), stage.topic(3), stage.topic(4)
    values = fill(stage, first, 30)
    names = {"group": stage.name(), "transactional_id": stage.name()}
    front = Pipeline(stage.library.name, stage.address, first, 3, second, 3, **names, abort_every=2)
    back = pipeline_of(stage, second, third, abort_every=3)
    process = PipelineProcess(back, tmp_path / "stderr")
    process.start()
    front.run()
    for partition in range(3):
        stage.fill(second, partition, [END])
    process.wait(60)
    middle = [
        [
            record.value
            for each in values
            for record in map(front.transformed, each)
            if record.partition == index
        ]
        for index in range(3)
    ]
    found = stage.read(third, 4)
    wanted = sorted(back.transformed(value).value for each in middle for value in each)
    assert sorted(value for each in found for value in each) == wanted
