"""The description of a task that a worker sends to its engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.connect.sdk import SOURCE

CHECKPOINT_KEYS_OF_SINKS = ("topics", "topics.regex", "task.partitions")
BASE_FILE = "ottla-base.json"
"""In the checkpoint of a source: the offsets that it began with."""


@dataclass(frozen=True)
class TaskSpec:
    """A task to run; configs are without references to providers."""

    connector: str
    task: int
    run: int
    """Numbers the starts of a task, so that events of earlier ones are recognized."""
    kind: str
    class_name: str
    config: Mapping[str, str]
    """The connector's config, with the task's on top."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """The worker's converters."""
    client: Mapping[str, str] = field(default_factory=dict)
    """How to reach the brokers: options of the format `ottla`, with `kafka.`."""
    producer: Mapping[str, str] = field(default_factory=dict)
    """A sink: the same for what writes to its dead-letter topic."""
    storage: str = ""
    """The folder of this connector's checkpoints."""
    offsets: Mapping[str, Any] = field(default_factory=dict)
    """A source: where the connector was, by source partition."""
    group: str = ""
    """A sink: its consumer group."""

    @property
    def id(self) -> str:
        """Its name in messages."""
        return f"{self.connector}-{self.task}"

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TaskSpec:
        """Read it."""
        return cls(**json.loads(text))


def fingerprint(config: Mapping[str, str], keys: tuple[str, ...]) -> str:
    """Return what names a checkpoint: it changes if a task is to read something else."""
    chosen = {key: config[key] for key in sorted(keys) if key in config}
    return hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:12]


def checkpoint_name(connector: Any, task: int, config: Mapping[str, str]) -> str:
    """Return the name of the folder of a task's checkpoint; `connector` is its class."""
    keys = CHECKPOINT_KEYS_OF_SINKS
    if connector.kind == SOURCE:
        keys = (*connector.position_keys, "task.partitions")
    return f"{task}-{fingerprint(config, keys)}"
