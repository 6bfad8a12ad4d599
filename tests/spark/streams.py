"""Run the examples of examples/pipelines/streams with the session and the broker of the tests."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.spark.pipeline_runs import Pipeline
from tests.spark.topics import Topics

from ottla.spark.pipelines.registry import Registry, declaring

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
STREAMS = EXAMPLES / "streams"
START_MS = 1_767_261_600_000  # 2026-01-01T10:00Z


class Example:
    """An example, its topics, and what it has written. Each example has names of topics of its own."""

    def __init__(self, spark: Any, topics: Topics, folder: Path, name: str) -> None:
        self.spark = spark
        self.topics = topics
        self.file = STREAMS / f"{name}.py"
        self.pipeline = Pipeline(spark, folder, topics.address)

    def create(self, *names: str, is_compacted: bool = False) -> None:
        configs = {"cleanup.policy": "compact"} if is_compacted else {}
        for name in names:
            self.topics.admin.create_topic(name, partitions=2, configs=configs)

    def send(self, topic: str, rows: Iterable[Any]) -> None:
        """Send values (objects as JSON, text as it is), or pairs of key and value."""
        for row in rows:
            key, value = row if isinstance(row, tuple) else (None, row)
            self.topics.producer.send(topic, _bytes(value), key=_bytes(key))
        self.topics.producer.flush()

    def run(self, path: Path | None = None) -> None:
        """Process what is there."""
        self.pipeline.run(path or self.file)

    def rows(self, topic: str) -> list[Any]:
        """Return the committed values of a topic, in the order of each partition."""
        return [json.loads(record.value) for record in self.topics.records(topic)]

    def table(self, topic: str) -> dict[str, Any]:
        """Return the newest committed value of each key, without the deleted."""
        newest = {record.key.decode(): record.value for record in self.topics.records(topic)}
        return {key: json.loads(value) for key, value in newest.items() if value is not None}

    def functions(self) -> dict[str, Any]:
        """Return what the example's file defines."""
        with declaring(Registry()):
            return runpy.run_path(str(self.file))


def moment(seconds: float) -> str:
    """Return a time so many seconds after the start, as it stands in values."""
    at = datetime.fromtimestamp(START_MS / 1000 + seconds, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Return how many seconds after the start a time of a value is."""
    return datetime.fromisoformat(text).timestamp() - START_MS / 1000


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()
