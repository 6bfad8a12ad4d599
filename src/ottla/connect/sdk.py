"""Write a connector: one class with declared config keys.

    class Ticker(SourceConnector):
        keys = (ConfigKey("topic"), ConfigKey("symbols", LIST))

        def reader(self, task):
            return TickerReader(task["topic"], task["symbols"].split(","))

A source has a `SourceReader`, which Spark asks for the end of each batch and then, in its workers, for the
records up to it. A sink has a `SinkWriter`, which gets the records of each batch. Both are pickled: they hold
settings, and open connections where they use them. `ottla connect init` writes a first one with its test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.connect.config.keys import ConfigKey, Settings
from ottla.connect.data.record import Record

Offsets = dict[str, dict[str, Any]]
"""Where a source is: the offset of each source partition; the partition is a JSON object as text."""

SOURCE, SINK = "source", "sink"


def partition_of(**fields: Any) -> str:
    """Return the text of a source partition, always the same for the same fields."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


class Connector:
    """The common part of sources and sinks."""

    keys: ClassVar[tuple[ConfigKey, ...]] = ()
    """The config keys of this connector, beside those of all connectors."""
    version: ClassVar[str] = ""
    """Default: that of Ottla."""
    kind: ClassVar[str] = ""
    guarantee: ClassVar[str] = "at least once"
    interval_ms: ClassVar[int] = 0
    """The default of `batch.interval.ms`: the time from one batch to the next."""
    position_keys: ClassVar[tuple[str, ...]] = ()
    """The keys of a source that say what a task reads: another value begins another checkpoint."""

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        self.name = name
        self.config = dict(config)
        self.settings = Settings(self.keys, config)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the connector in `connector.class`."""
        return f"{cls.__module__}.{cls.__qualname__}"

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Return what is wrong with a config whose keys are valid one by one: a text by key."""
        return {}

    @classmethod
    def recommended(cls, key: str, config: Mapping[str, str]) -> list[str]:
        """Return values to choose from."""
        return []

    def task_configs(self, most: int) -> list[dict[str, str]]:
        """Return the configs of the tasks, at most `most`; what is added must differ between tasks."""
        return [self.config]


class SourceReader:
    """Reads a source, in batches that can be read again. Offsets go only forward."""

    def initial(self, stored: Offsets) -> Offsets:
        """Return where to start; `stored` is where this connector was before, if it was."""
        return stored

    def latest(self, start: Offsets) -> Offsets:
        """Return the end of the next batch; `start` if there is nothing new. Limit its size here."""
        raise NotImplementedError

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return the parts of a batch, which are read in parallel; each must be picklable."""
        return [(start, end)]

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the records of one part, in a worker; the same records each time."""
        raise NotImplementedError

    def read_arrow(self, part: Any) -> Iterator[Any] | None:
        """Yield Arrow batches (topic, key, value), when records need no converter or transform; see `raw`."""
        return None

    def read_json(self, part: Any, key: Any, value: Any) -> Iterator[Any] | None:
        """Yield Arrow batches of bytes and records in their order, when both converters are JSON and no
        transform looks at them.
        """
        return None

    def commit(self, end: Offsets) -> None:
        """Release what lies before `end`: the records are in their topics."""


class SourceConnector(Connector):
    """Moves data from outside into topics."""

    kind = SOURCE
    guarantee = "exactly once"

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader of a task."""
        raise NotImplementedError

    def topics(self) -> list[str]:
        """Return the topics that are known before the first record: they are created with the connector."""
        return []

    def alarms(self) -> list[str]:
        """Return what an operator must know, also while the connector does not run; asked every 30 s."""
        return []

    def check_offsets(self, offsets: Offsets) -> None:
        """Raise ConnectError if these offsets cannot be set with PATCH /connectors/NAME/offsets."""


@dataclass(frozen=True)
class Batch:
    """A batch of a sink: the same query and number come again with the same records after a crash."""

    query: str
    number: int
    connector: str
    task: int


@dataclass(frozen=True)
class Refused:
    """A record that the target refuses, and why: it goes where `errors.tolerance` says."""

    record: Record
    reason: str


class SinkWriter:
    """Writes the batches of a sink."""

    by_partition: ClassVar[bool] = False
    """Whether all records of a topic's partition must be written by the same `write`."""

    def prepare(self, batch: Batch) -> bool:
        """Called before a batch, on the driver; return False if the target has it already."""
        return True

    def write(self, records: Iterator[Record], batch: Batch, refused: list[Refused]) -> Any:
        """Write records in a worker; return a small JSON value for `commit`."""
        raise NotImplementedError

    def write_json(self, rows: Sequence[Any], batch: Batch, key: Any, value: Any) -> Any:
        """Write Arrow batches of a topic's records, when both converters are JSON and no transform looks at
        them; return what `write` returns. None leaves them to `write`.
        """
        return None

    def commit(self, batch: Batch, messages: Sequence[Any]) -> None:
        """Complete a batch, on the driver, after all its records are written."""


class SinkConnector(Connector):
    """Moves records from topics to the outside."""

    kind = SINK

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer of a task."""
        raise NotImplementedError
