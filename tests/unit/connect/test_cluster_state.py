"""The configs topic: replay, task commits, target states, and the plan of a worker."""

from __future__ import annotations

from ottla.connect.group.protocol import CONNECTOR, TaskId
from ottla.connect.herder.cluster_state import ClusterState, RestartRequest
from ottla.connect.herder.desired import RunningTask, plan
from ottla.connect.herder.statuses import Statuses

A = {"name": "a", "connector.class": "X"}


def made() -> ClusterState:
    state = ClusterState()
    state.apply("connector-a", {"properties": A}, 0)
    for number in range(2):
        state.apply(f"task-a-{number}", {"properties": {**A, "n": str(number)}}, number + 1)
    state.apply("commit-a", {"tasks": 2}, 3)
    return state


def test_task_configs_count_from_their_commit_on() -> None:
    state = ClusterState()
    assert state.apply("connector-a", {"properties": A}, 0) == ("connector", "a", True)
    state.apply("task-a-0", {"properties": {"n": "0"}}, 1)
    assert state.tasks["a"] == []
    assert state.apply("commit-a", {"tasks": 1}, 2) == ("tasks", "a", True)
    assert state.tasks["a"] == [{"n": "0"}]
    # Compaction may have left a commit without its tasks: then the old ones hold.
    assert state.apply("commit-a", {"tasks": 3}, 3) is None
    assert state.tasks["a"] == [{"n": "0"}]
    assert state.work() == {TaskId("a", CONNECTOR), TaskId("a", 0)}


def test_target_states_are_read_in_both_forms() -> None:
    state = made()
    state.apply("target-state-a", {"state": "PAUSED"}, 4)
    assert state.targets["a"] == "PAUSED"
    state.apply("target-state-a", {"state": "PAUSED", "state.v2": "STOPPED"}, 5)
    assert state.targets["a"] == "STOPPED"
    # A target state may come before its connector: created stopped.
    state.apply("target-state-b", {"state": "PAUSED", "state.v2": "STOPPED"}, 6)
    state.apply("connector-b", {"properties": A}, 7)
    assert state.targets["b"] == "STOPPED"


def test_a_tombstone_removes_everything() -> None:
    state = made()
    assert state.apply("connector-a", None, 4) == ("removed", "a", None)
    assert (state.connectors, state.tasks, state.targets) == ({}, {}, {})
    assert state.apply("restart-connector-a", {"include-tasks": True, "only-failed": False}, 5) == (
        "restart",
        "a",
        RestartRequest(True, False),
    )
    assert state.apply("session-key", {"key": "x"}, 6) is None


def test_a_worker_starts_what_is_its_own_and_stops_the_rest() -> None:
    state = made()
    ours = {TaskId("a", CONNECTOR), TaskId("a", 0)}
    found = plan(state, ours, {}, 0)
    assert (found.start, found.stop) == ([TaskId("a", 0)], [])
    running = {TaskId("a", 0): RunningTask(state.tasks["a"][0], 1, "running")}
    assert plan(state, ours, running, 0).start == []
    state.apply("target-state-a", {"state": "PAUSED"}, 4)
    assert plan(state, ours, running, 0).stop == [TaskId("a", 0)]
    state.apply("target-state-a", {"state": "STARTED"}, 5)
    state.apply("task-a-0", {"properties": {"n": "new"}}, 6)
    state.apply("commit-a", {"tasks": 2}, 7)
    assert plan(state, ours, running, 0).stop == [TaskId("a", 0)]


def test_failures_are_retried_with_growing_pauses_and_then_given_up() -> None:
    state = made()
    what = TaskId("a", 0)
    task = RunningTask(state.tasks["a"][0], 1, "running")
    pauses = []
    for _ in range(3):
        assert task.failed(1000, most=3)
        pauses.append(task.restart_at_ms)
    assert pauses == [2000, 3000, 5000]
    assert plan(state, {what}, {what: task}, 4999).start == []
    assert plan(state, {what}, {what: task}, 5000).start == [what]
    assert not task.failed(1000, most=3)
    assert plan(state, {what}, {what: task}, 10**9).start == []
    # A failed task is forgotten with its config, and started again with the new one.
    state.apply("task-a-0", {"properties": {"n": "new"}}, 6)
    state.apply("commit-a", {"tasks": 2}, 7)
    found = plan(state, {what}, {what: task}, 0)
    assert (found.forget, found.start) == ([what], [what])


def test_states_and_topics_by_their_keys() -> None:
    statuses = Statuses()
    record = {"state": "FAILED", "trace": "boom", "worker_id": "h:1", "generation": 2}
    statuses.apply("status-task-a-b-10", record)
    statuses.apply("status-connector-a-b", {**record, "state": "RUNNING", "trace": None})
    statuses.apply("status-topic-t:connector-a-b", {"topic": {"name": "t"}})
    assert statuses.tasks_of("a-b")[10].as_json() == {"state": "FAILED", "worker_id": "h:1", "trace": "boom"}
    assert statuses.states[TaskId("a-b", CONNECTOR)].as_json() == {"state": "RUNNING", "worker_id": "h:1"}
    assert statuses.topics == {"a-b": {"t"}}
    statuses.apply("status-task-a-b-10", None)
    statuses.apply("status-topic-t:connector-a-b", None)
    assert (statuses.tasks_of("a-b"), statuses.topics) == ({}, {"a-b": set()})
