"""What a worker should run now, and how that differs from what it runs. Pure code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.common.backoff import doubled
from ottla.connect.group.protocol import CONNECTOR, TaskId
from ottla.connect.herder.cluster_state import PAUSED, STARTED, STOPPED, ClusterState, Config

INITIAL_BACKOFF_MS, MAX_BACKOFF_MS = 1_000, 60_000


@dataclass
class RunningTask:
    """A task that this worker runs, or has run until it failed."""

    config: Config
    run: int
    state: str = "starting"
    """starting, running, stopping, waiting (for its restart), failed."""
    failures: int = 0
    """In a row, without a batch in between."""
    restart_at_ms: int | None = None

    def failed(self, now_ms: int, most: int) -> bool:
        """Note a passing failure; return whether it will be restarted."""
        self.failures += 1
        if self.failures > most:
            self.state = "failed"
            return False
        self.state = "waiting"
        self.restart_at_ms = now_ms + doubled(INITIAL_BACKOFF_MS, self.failures, MAX_BACKOFF_MS)
        return True


@dataclass(frozen=True)
class Plan:
    """What to do."""

    start: list[TaskId] = field(default_factory=list)
    stop: list[TaskId] = field(default_factory=list)
    forget: list[TaskId] = field(default_factory=list)
    """Failed tasks that are not ours any more."""


def wanted_tasks(state: ClusterState, assigned: Iterable[TaskId]) -> dict[TaskId, Config]:
    """Return the tasks that should run here, with their whole configs."""
    found = {}
    for each in assigned:
        tasks = state.tasks.get(each.connector, [])
        if each.task == CONNECTOR or each.task >= len(tasks):
            continue
        if state.targets.get(each.connector) == STARTED and each.connector in state.connectors:
            found[each] = tasks[each.task]
    return found


def plan(
    state: ClusterState, assigned: Iterable[TaskId], running: Mapping[TaskId, RunningTask], now_ms: int
) -> Plan:
    """Return what to start and what to stop."""
    wanted = wanted_tasks(state, assigned)
    found = Plan()
    for what, task in running.items():
        if task.state == "stopping":
            continue
        is_over = what not in wanted
        is_changed = not is_over and wanted[what] != task.config
        if (is_over or is_changed) and task.state in ("starting", "running"):
            found.stop.append(what)
        elif is_over or is_changed:
            found.forget.append(what)
            if is_changed:
                found.start.append(what)
        elif task.state == "waiting" and task.restart_at_ms is not None and task.restart_at_ms <= now_ms:
            found.start.append(what)
    found.start.extend(each for each in wanted if each not in running)
    return found


def connector_state(state: ClusterState, name: str) -> str:
    """Return the state that a connector's owner reports."""
    return {PAUSED: "PAUSED", STOPPED: "STOPPED"}.get(state.targets.get(name, STARTED), "RUNNING")
