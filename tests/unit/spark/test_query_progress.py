"""How far behind a query is, from Spark's reports; and what the endpoint of a driver says about it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from ottla.cli.pipeline.status import remote_state
from ottla.cli.support.problems import Problem
from ottla.spark.driver_endpoint import DriverEndpoint
from ottla.spark.pipelines.run.progress import FlowProgress
from ottla.spark.pipelines.run.state import new_state
from ottla.spark.query_progress import ENDED, FAILED, QueryBoard, SourceLag, read_source

POSITION = {"t": {"0": 10, "1": 20}, "@ids": {"t": "id"}, "@group": "g"}
LATEST = {"t": {"0": 15, "1": 20}, "@seconds": 2.5}


def report(batch: int = 0, run: str = "run", **more: Any) -> dict[str, Any]:
    source = {
        "description": "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1",
        "endOffset": POSITION,
        "latestOffset": LATEST,
        "numInputRows": 7,
    }
    return {
        "id": "5f0c2f2e-0000",
        "runId": run,
        "name": "copy",
        "batchId": batch,
        "numInputRows": 7,
        "processedRowsPerSecond": "NaN",
        "batchDuration": 250,
        "sources": [source],
        "sink": {"description": "org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink@2"},
        **more,
    }


def test_a_source_is_described_in_words_and_knows_how_far_behind_it_is() -> None:
    found = read_source(report()["sources"][0])
    assert found.description == "ottla: t (2 partitions)"
    assert (found.topics, found.group) == (("t",), "g")
    assert found.behind == SourceLag(2.5, 5, 0, 5, 2.5)


def test_a_source_at_the_end_is_0_seconds_behind_and_one_of_the_connector_does_not_know() -> None:
    source = report()["sources"][0]
    done = read_source({**source, "latestOffset": {"t": {"0": 10, "1": 20}}})
    assert done.behind == SourceLag(0.0, 0, 0, 0, 0.0)
    theirs = read_source(
        {**source, "endOffset": json.dumps({"t": {"0": 1}}), "latestOffset": json.dumps({"t": {"0": 4}})}
    )
    assert (theirs.description, theirs.behind) == ("kafka: t (1 partition)", SourceLag(3.0, 3, 3, 3, None))


@pytest.mark.parametrize("offset", [None, "5", {"logOffset": 3}, "not json", 7])
def test_a_source_of_another_kind_is_not_behind(offset: Any) -> None:
    found = read_source(
        {"description": "FileStreamSource[/data]", "endOffset": offset, "latestOffset": offset}
    )
    assert (found.description, found.behind) == ("FileStreamSource[/data]", None)


def test_a_board_counts_the_rows_of_a_run_and_notes_its_end() -> None:
    board = QueryBoard()
    board.report(report(0))
    board.report(report(1))
    (query,) = board.queries()
    assert (query.rows, query.batch, query.sink, query.rows_per_second) == (14, 1, "foreachBatch", 0.0)
    board.report(report(2, run="another"))
    assert board.queries()[0].rows == 7
    board.ended("5f0c2f2e-0000", "run", "too late: it runs again")
    assert board.queries()[0].error is None
    board.ended("5f0c2f2e-0000", "another", "no broker")
    assert (board.queries()[0].state, board.queries()[0].error) == (FAILED, "no broker")
    assert board.ended("never seen", "run", None).state == ENDED


def test_a_driver_serves_metrics_and_its_state_to_a_remote_status() -> None:
    board = QueryBoard()
    board.report(report(3))
    state = new_state("shop", "/shop", "local[2]", 1)
    state.flows = [FlowProgress("copy", "copies").after(report(3)).as_json()]
    endpoint = DriverEndpoint(board, lambda: {**vars(state), "of a newer version": 1})
    endpoint.start("127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"{endpoint.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        labels = '{id="5f0c2f2e-0000",query="copy",source="ottla: t (2 partitions)"}'
        for name, value in {"behind_avg": "2.5", "behind_max": "5.0", "behind_min": "0.0"}.items():
            assert f"ottla_spark_source_offsets_{name}{labels} {value}" in lines
        assert f"ottla_spark_source_seconds_behind{labels} 2.5" in lines
        assert 'ottla_spark_query_rows_total{id="5f0c2f2e-0000",query="copy"} 7.0' in lines
        found = remote_state(endpoint.url)
        assert (found.name, found.state) == ("shop", "starting")
        assert (found.flows[0]["offsets_behind_max"], found.flows[0]["seconds_behind"]) == (5, 2.5)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{endpoint.url}/elsewhere")
    finally:
        endpoint.close()
    with pytest.raises(Problem, match="no pipeline answers at"):
        remote_state(endpoint.url)
