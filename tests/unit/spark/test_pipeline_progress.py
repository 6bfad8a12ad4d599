from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ottla.common.clock import ManualClock
from ottla.spark.pipelines.elements import Dataset, Flow, Kind
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.run.progress import FlowProgress, read_offsets
from ottla.spark.pipelines.run.running_flow import Restarts, RunningFlow
from ottla.spark.pipelines.run.state import (
    DIED,
    all_states,
    driver_lock,
    new_state,
    process_start,
    read_state,
)
from ottla.spark.pipelines.run.storage import open_storage

REPORT = {
    "batchId": 3,
    "numInputRows": 20,
    "processedRowsPerSecond": 200.04,
    "batchDuration": 100,
    "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
    "stateOperators": [{"numRowsTotal": 5}, {"numRowsTotal": 2}],
}


def test_progress_adds_up_the_reports_of_batches():
    progress = FlowProgress("f", "t").after(REPORT).after({**REPORT, "batchId": 4, "numInputRows": 0})
    assert (progress.batch, progress.rows, progress.batch_rows, progress.state) == (4, 20, 0, "waiting")
    assert (progress.rows_per_second, progress.state_rows) == (200.0, 7)


def test_rates_that_are_no_numbers_are_zero():
    assert (
        FlowProgress("f", "t").after({**REPORT, "processedRowsPerSecond": float("nan")}).rows_per_second == 0
    )


def test_offsets_are_read_from_reports_and_what_is_no_offset_is_left_out():
    sources = [
        {"endOffset": {"orders": {"0": 5, "1": 7}, "@group": "g", "@ids": {"orders": "x"}}},
        {"endOffset": '{"users": {"0": 1}, "@from": {"users": {"0": 0}}}'},
        {"endOffset": "17"},
        {"endOffset": None},
        {"endOffset": "not json"},
    ]
    assert read_offsets({"sources": sources}) == {("orders", 0): 5, ("orders", 1): 7, ("users", 0): 1}


def test_restarts_wait_longer_each_time_and_give_up_unless_a_batch_succeeds():
    restarts = Restarts(3)
    assert [restarts.failed() for _ in range(4)] == [1_000, 2_000, 4_000, None]
    restarts.progressed()
    assert restarts.failed() == 1_000
    assert max(wait for wait in (Restarts(99, failures=n).failed() for n in range(20)) if wait) == 60_000


def test_a_failed_flow_says_when_it_is_started_again_and_that_it_gave_up():
    clock = ManualClock()
    flow = Flow("f", "t", lambda: None, Place("p.py", 1))
    running = RunningFlow(flow, Dataset("t", Kind.SINK, Place("p.py")), clock, 1, lambda offsets: None)
    assert running.failed("away", is_final=False)
    assert running.restart_at_ms == clock.now_ms + 1_000
    assert (running.progress.state, running.progress.restarts) == ("restarting", 1)
    assert not running.failed("away", is_final=False)
    assert running.is_over


@pytest.fixture
def storage(tmp_path):
    return open_storage(tmp_path, "shop", tmp_path)


def test_a_state_file_says_who_runs_a_pipeline(storage, tmp_path):
    state = new_state("shop", "/p", "", 1)
    state.write(storage)
    [found] = all_states(tmp_path)
    assert found == state
    assert found.is_here()
    assert (found.pid, found.host) == (os.getpid(), socket.gethostname())


def test_a_driver_that_is_gone_is_noticed_even_if_its_process_id_is_used_again(storage):
    state = new_state("shop", "/p", "", 1)
    state.state = "running"
    state.process_start += 1  # a process of that id lives, but it started at another time
    assert state.now() == DIED
    state.host = "elsewhere"
    assert state.now() == "running"


def test_state_files_that_cannot_be_read_are_left_out(storage, tmp_path):
    storage.state_file.parent.mkdir()
    storage.state_file.write_text("{")
    assert read_state(storage.state_file) is None
    assert all_states(tmp_path) == []
    assert process_start(2**22 + 1) is None


def test_a_second_driver_is_refused(storage):
    new_state("shop", "/p", "", 1).write(storage)
    with (
        driver_lock(storage, "shop"),
        pytest.raises(PipelineProblem, match=f"already running .process {os.getpid()}"),
        driver_lock(storage, "shop"),
    ):
        pass
    with driver_lock(storage, "shop"):
        pass


def test_a_view_is_published_in_one_step_and_the_one_before_is_kept(storage):
    for version in ("1", "2", "3"):
        (storage.view("totals") / version).mkdir(parents=True)
        storage.publish_view("totals", version)
        assert storage.current_view("totals") == storage.view("totals") / version
    assert sorted(path.name for path in storage.view("totals").iterdir()) == ["2", "3", "current"]


def test_starting_over_forgets_the_checkpoint_and_the_files(storage):
    for folder in (storage.checkpoint("f"), storage.table("t", "f"), storage.table("t", "other")):
        folder.mkdir(parents=True)
    storage.forget("f", "t")
    assert not Path(storage.checkpoint("f")).exists()
    assert not storage.table("t", "f").exists()
    assert storage.table("t", "other").exists()
