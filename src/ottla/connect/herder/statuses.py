"""What the status topic says: states of connectors and tasks, and the topics they use. Pure code.

status-connector-NAME           {"state", "trace", "worker_id", "generation", "version"}
status-task-NAME-N              the same
status-topic-TOPIC:connector-NAME   {"topic": {"name", "connector", "task", "discoverTimestamp"}}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ottla.connect.config.secrets import without_parts
from ottla.connect.group.protocol import CONNECTOR, TaskId

RUNNING, PAUSED, STOPPED, FAILED = "RUNNING", "PAUSED", "STOPPED", "FAILED"
UNASSIGNED, RESTARTING = "UNASSIGNED", "RESTARTING"


@dataclass(frozen=True)
class Status:
    """The state of a connector or a task."""

    state: str
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None
    """Of the connector's class."""

    def as_record(self) -> dict[str, Any]:
        """Return the value of its record."""
        return {
            "state": self.state,
            "trace": self.trace,
            "worker_id": self.worker_id,
            "generation": self.generation,
            "version": self.version,
        }

    def as_json(self) -> dict[str, Any]:
        """Return it as REST answers show it."""
        found = {"state": self.state, "worker_id": self.worker_id}
        if self.version:
            found["version"] = self.version
        return found | {"trace": without_parts(self.trace)} if self.trace else found


def status_key(what: TaskId) -> str:
    """Return the key of a status."""
    if what.task == CONNECTOR:
        return f"status-connector-{what.connector}"
    return f"status-task-{what.connector}-{what.task}"


def topic_key(topic: str, connector: str) -> str:
    """Return the key of a topic that a connector uses."""
    return f"status-topic-{topic}:connector-{connector}"


@dataclass
class Statuses:
    """The states after some records."""

    states: dict[TaskId, Status] = field(default_factory=dict)
    topics: dict[str, set[str]] = field(default_factory=dict)
    """Of each connector."""

    def apply(self, key: str, value: Any) -> None:
        """Take a record."""
        if key.startswith("status-topic-"):
            topic, _, name = key[len("status-topic-") :].partition(":connector-")
            if isinstance(value, dict):
                self.topics.setdefault(name, set()).add(topic)
            else:
                self.topics.get(name, set()).discard(topic)
            return
        what = _what(key)
        if what is None:
            return
        if not isinstance(value, dict) or "state" not in value:
            self.states.pop(what, None)
        else:
            self.states[what] = Status(
                str(value["state"]),
                str(value.get("worker_id")),
                int(value.get("generation") or 0),
                value.get("trace"),
                value.get("version"),
            )

    def tasks_of(self, connector: str) -> dict[int, Status]:
        """Return the states of a connector's tasks."""
        return {
            what.task: status
            for what, status in sorted(self.states.items())
            if what.connector == connector and what.task != CONNECTOR
        }


def _what(key: str) -> TaskId | None:
    if key.startswith("status-connector-"):
        return TaskId(key[len("status-connector-") :], CONNECTOR)
    if key.startswith("status-task-"):
        name, _, number = key[len("status-task-") :].rpartition("-")
        return TaskId(name, int(number)) if number.isdecimal() else None
    return None
