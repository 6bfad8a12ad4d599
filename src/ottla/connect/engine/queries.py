"""A task as a streaming query: how it is started, watched and stopped. Runs in the engine's process."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.common.ids import TopicPartition
from ottla.connect.config.keys import java_regex
from ottla.connect.engine.sink_batches import BatchWriter
from ottla.connect.engine.source_stream import COUNT_FILE, FORMAT, counted_records
from ottla.connect.engine.spec import BASE_FILE, TaskSpec, checkpoint_name
from ottla.connect.engine.topic_ranges import FORMAT as TOPICS_FORMAT
from ottla.connect.plugins import Plugins
from ottla.connect.sdk import SOURCE
from ottla.spark.checkpoint_files import CheckpointFiles, is_checkpoint

IDLE_WAIT_S = 10.0
POLL_S = 0.02
DEFAULT_MAX_RECORDS = "100000"

RETRIABLE_SIGNS = (
    "RetriableError",
    "ConnectionLost",
    "BrokerUnreachable",
    "TimedOut",
    "OperationalError",
    "ObjectInUse",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "CoordinatorNotAvailable",
    "CoordinatorLoadInProgress",
    "NotCoordinator",
    "NotLeaderOrFollower",
    "LeaderNotAvailable",
    "UnknownTopicOrPartition",
    "ConcurrentTransactions",
    "CheckpointInUse",
    "Superseded",
    "is used by another query",
    "unknown topic",
)
"""Words in the text of an error that is likely to go away by itself."""


def is_retriable(trace: str) -> bool:
    """Return whether a task that failed so is worth another try."""
    return any(each in trace for each in RETRIABLE_SIGNS)


def trace_of(error: BaseException) -> str:
    """Return what a user needs of an error: the Python part of it."""
    text = str(error)
    at = text.rfind("Traceback (most recent call last)")
    if at < 0:
        return f"{type(error).__name__}: {text.partition(chr(10) + chr(9) + 'at ')[0]}"[:20_000]
    ends = [end for mark in ("\n\n", "\n\tat ") if (end := text.find(mark, at)) > 0]
    return text[at : min(ends)][:20_000] if ends else text[at:][:20_000]


class TaskQuery:
    """A running task."""

    def __init__(self, spark: Any, plugins: Plugins, plugin_path: list[str], spec: TaskSpec) -> None:
        self.spec = spec
        self._spark = spark
        self._plugins = plugins
        self._plugin_path = plugin_path
        self._query: Any = None
        self._last_batch: tuple[str, int] | None = None
        self._batches: BatchWriter | None = None
        self._count_file: Path | None = None
        self._counted = 0

    def start(self) -> None:
        """Start the query."""
        if self.spec.kind != SOURCE and is_overtaken(Path(self._checkpoint), self.spec.offsets):
            shutil.rmtree(self._checkpoint)
        Path(self._checkpoint).mkdir(parents=True, exist_ok=True)
        writer = self._source() if self.spec.kind == SOURCE else self._sink()
        writer = writer.queryName(self.spec.id).option("checkpointLocation", self._checkpoint)
        interval = self.spec.config.get("batch.interval.ms") or self.spec.config.get(
            "transaction.boundary.interval.ms"
        )
        if interval:
            writer = writer.trigger(processingTime=f"{int(interval)} milliseconds")
        self._query = writer.start()

    @property
    def _checkpoint(self) -> str:
        kind = self._plugins.connector(self.spec.class_name)
        return f"{self.spec.storage}/{checkpoint_name(kind, self.spec.task, self.spec.config)}"

    def _source(self) -> Any:
        base = Path(self._checkpoint) / BASE_FILE
        if not (Path(self._checkpoint) / "offsets").exists():
            base.write_text(json.dumps(dict(self.spec.offsets)))
        rows = (
            self._spark.readStream.format(FORMAT)
            .option("spec", self.spec.to_json())
            .option("pluginpath", json.dumps(self._plugin_path))
            .load()
        )
        options = {
            **self.spec.client,
            **_overrides(self.spec.config, "producer.override."),
            "includeHeaders": "true",
            "includeTimestamp": "true",
        }
        self._count_file = Path(self._checkpoint) / COUNT_FILE
        self._counted, _ = counted_records(self._count_file)
        own = {
            "spec": self.spec.to_json(),
            "pluginpath": json.dumps(self._plugin_path),
            "countfile": str(self._count_file),
        }
        return rows.writeStream.format(FORMAT).options(**options, **own).outputMode("append")

    def _sink(self) -> Any:
        spec, config = self.spec, self.spec.config
        overrides = _overrides(config, "consumer.override.")
        reset = overrides.pop("kafka.auto.offset.reset", "earliest")
        options = {
            **spec.client,
            **overrides,
            **_topics(config),
            "includeHeaders": "true",
            "failOnDataLoss": "false",
            "startingOffsets": json.dumps(spec.offsets) if spec.offsets else reset,
            "maxOffsetsPerTrigger": config.get("batch.max.records") or DEFAULT_MAX_RECORDS,
            "kafka.group.id": spec.group,
        }
        rows = self._spark.readStream.format(TOPICS_FORMAT).options(**options).load()
        kind: Any = self._plugins.connector(spec.class_name)
        writer = kind(spec.connector, config).writer(config)
        name = f"{spec.connector}/{Path(self._checkpoint).name}/{self._stamp()}"
        self._batches = BatchWriter(spec, writer, name, self._plugin_path)
        return rows.writeStream.foreachBatch(self._batches)

    def _stamp(self) -> str:
        """Return what changes when the checkpoint is made anew: batch numbers begin again."""
        file = Path(self._checkpoint) / "ottla-stamp"
        if not file.exists():
            from ottla.common.ids import new_uuid

            temporary = file.with_suffix(".new")
            temporary.write_text(new_uuid().hex[:12])
            temporary.rename(file)
        return file.read_text()

    def progress(self) -> dict[str, Any] | None:
        """Return the report of the last batch, if it is new."""
        found = self._query._jsq.lastProgress() if self._query is not None else None
        if found is None:
            return None
        report = json.loads(found.json())
        seen = (report["runId"], report["batchId"])
        if seen == self._last_batch and not report.get("numInputRows"):
            return None
        if seen == self._last_batch:
            return None
        self._last_batch = seen
        end = (report.get("sources") or [{}])[0].get("endOffset")
        return {
            "batch": report["batchId"],
            "records": self._records(),
            "duration_ms": (report.get("durationMs") or {}).get("triggerExecution", 0),
            "offsets": json.loads(end) if isinstance(end, str) else end,
            "dead_letters": self._batches.dead_letters if self._batches is not None else 0,
        }

    def _records(self) -> int:
        """Return how many records the last batches had; Spark counts what says which to read."""
        before = self._counted
        if self._batches is not None:
            self._counted = self._batches.records
        elif self._count_file is not None:
            self._counted, _ = counted_records(self._count_file)
        return self._counted - before

    def failure(self) -> str | None:
        """Return why the query has ended; None while it runs."""
        if self._query is None or self._query.isActive:
            return None
        error = self._query.exception()
        return "the query has ended" if error is None else trace_of(error)

    def stop(self) -> dict[str, Any] | None:
        """Stop between two batches if that comes soon, and return the last report."""
        if self._query is None:
            return None
        deadline = time.monotonic() + IDLE_WAIT_S  # noqa: TID251 - a process without a simulated clock
        while self._query.isActive and self._query.status["isTriggerActive"]:
            if time.monotonic() > deadline:  # noqa: TID251
                break
            time.sleep(POLL_S)
        report = self.progress()
        self._query.stop()
        return report


def is_overtaken(checkpoint: Path, committed: Mapping[str, Any]) -> bool:
    """Return whether the group of a sink is further than the checkpoint of its query.

    Then other tasks have read these partitions since: the topics or the number of tasks were changed, and
    changed back. The query would write everything again that they have written.
    """
    if not is_checkpoint(checkpoint) or not (planned := CheckpointFiles(checkpoint).planned):
        return False
    positions = CheckpointFiles(checkpoint).read(planned[-1]).positions
    return any(
        offset > positions.get(TopicPartition(topic, int(number)), offset)
        for topic, partitions in committed.items()
        for number, offset in partitions.items()
    )


def _overrides(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {f"kafka.{key[len(prefix) :]}": value for key, value in config.items() if key.startswith(prefix)}


def _topics(config: Mapping[str, str]) -> dict[str, str]:
    if config.get("task.partitions"):
        return {"assign": config["task.partitions"]}
    if config.get("topics", "").strip():
        return {"subscribe": config["topics"]}
    return {"subscribePattern": java_regex(config["topics.regex"]).pattern}
