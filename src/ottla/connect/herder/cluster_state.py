"""What the configs topic says: connectors, their target states, the configs of their tasks. Pure code.

connector-NAME           {"properties": {...}}              null: deleted
task-NAME-N              {"properties": {...}}              takes effect with the commit
commit-NAME              {"tasks": N}
target-state-NAME        {"state": "PAUSED", "state.v2": "STOPPED"}
restart-connector-NAME   {"include-tasks": true, "only-failed": false}
logger-cluster-NAME      {"level": "DEBUG"}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.connect.group.protocol import CONNECTOR, TaskId

STARTED, PAUSED, STOPPED = "STARTED", "PAUSED", "STOPPED"
Config = dict[str, str]


class Change(NamedTuple):
    """What a record has changed."""

    kind: str
    """connector, removed, tasks, target, restart, logger."""
    name: str
    detail: Any = None


class RestartRequest(NamedTuple):
    """A restart that was asked for."""

    include_tasks: bool
    only_failed: bool


def connector_key(name: str) -> str:
    """Return the key of a connector's config."""
    return f"connector-{name}"


def task_key(name: str, task: int) -> str:
    """Return the key of a task's config."""
    return f"task-{name}-{task}"


def commit_key(name: str) -> str:
    """Return the key that makes task configs valid."""
    return f"commit-{name}"


def target_key(name: str) -> str:
    """Return the key of a target state."""
    return f"target-state-{name}"


def restart_key(name: str) -> str:
    """Return the key of restart requests."""
    return f"restart-connector-{name}"


def logger_key(name: str) -> str:
    """Return the key of a logger's level."""
    return f"logger-cluster-{name}"


def target_value(state: str) -> dict[str, str]:
    """Return the value of a target state; old workers take a stopped connector for a paused one."""
    return {"state": PAUSED if state == STOPPED else state, "state.v2": state}


@dataclass
class ClusterState:
    """The state after some records."""

    connectors: dict[str, Config] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, list[Config]] = field(default_factory=dict)
    loggers: dict[str, str] = field(default_factory=dict)
    offset: int = -1
    """Of the last record."""
    _pending: dict[str, dict[int, Config]] = field(default_factory=dict)

    def apply(self, key: str, value: Any, offset: int = -1) -> Change | None:
        """Take a record; return what it changes."""
        self.offset = max(self.offset, offset)
        if key.startswith("connector-"):
            return self._connector(key[len("connector-") :], value)
        if key.startswith("task-"):
            self._task(key, value)
            return None
        if key.startswith("commit-"):
            return self._commit(key[len("commit-") :], value)
        if key.startswith("target-state-"):
            return self._target(key[len("target-state-") :], value)
        if key.startswith("restart-connector-") and isinstance(value, dict):
            asked = RestartRequest(bool(value.get("include-tasks")), bool(value.get("only-failed")))
            return Change("restart", key[len("restart-connector-") :], asked)
        if key.startswith("logger-cluster-") and isinstance(value, dict):
            name = key[len("logger-cluster-") :]
            self.loggers[name] = str(value.get("level"))
            return Change("logger", name, self.loggers[name])
        return None

    def _connector(self, name: str, value: Any) -> Change | None:
        if value is None:
            known = self.connectors.pop(name, None)
            for each in (self.tasks, self.targets, self._pending):
                each.pop(name, None)
            return None if known is None else Change("removed", name)
        config = _properties(value)
        if config is None:
            return None
        is_new = name not in self.connectors
        self.connectors[name] = config
        self.targets.setdefault(name, STARTED)
        self.tasks.setdefault(name, [])
        return Change("connector", name, is_new)

    def _task(self, key: str, value: Any) -> None:
        name, _, number = key[len("task-") :].rpartition("-")
        config = _properties(value)
        if config is not None and number.isdecimal():
            self._pending.setdefault(name, {})[int(number)] = config

    def _commit(self, name: str, value: Any) -> Change | None:
        count = value.get("tasks") if isinstance(value, dict) else None
        pending = self._pending.pop(name, {})
        if not isinstance(count, int) or name not in self.connectors:
            return None
        before = self.tasks.get(name, [])
        known = dict(enumerate(before)) | pending
        if any(each not in known for each in range(count)):
            return None  # some records are compacted away: the leader writes the configs again
        self.tasks[name] = [known[each] for each in range(count)]
        return Change("tasks", name, len(before) != count)

    def _target(self, name: str, value: Any) -> Change | None:
        if not isinstance(value, dict):
            self.targets.pop(name, None)
            if name in self.connectors:
                self.targets[name] = STARTED
            return None
        state = value.get("state.v2") or value.get("state")
        if state not in (STARTED, PAUSED, STOPPED):
            return None
        before = self.targets.get(name)
        self.targets[name] = state
        return Change("target", name, before) if before != state and name in self.connectors else None

    def work(self) -> set[TaskId]:
        """Return all connectors and tasks that some worker is to run."""
        found = {TaskId(name, CONNECTOR) for name in self.connectors}
        return found | {
            TaskId(name, number) for name, tasks in self.tasks.items() for number in range(len(tasks))
        }


def _properties(value: Any) -> Config | None:
    found = value.get("properties") if isinstance(value, dict) else None
    return (
        {str(key): str(each) for key, each in found.items() if each is not None}
        if isinstance(found, dict)
        else None
    )
