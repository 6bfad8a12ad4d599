"""Run one case of a pipeline: samples into topics of a broker, the flows over them, results compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.client.consumer import ConsumerRecord
from ottla.common.clock import Clock
from ottla.common.near_names import did_you_mean
from ottla.spark.pipelines.elements import TOPIC, Dataset, Kind
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.registry import Registry
from ottla.spark.pipelines.run.driver import Job, resolver_of
from ottla.spark.pipelines.run.progress import FlowProgress
from ottla.spark.pipelines.run.runner import Runner
from ottla.spark.pipelines.run.shipping import ship_imported
from ottla.spark.pipelines.run.state import new_state
from ottla.spark.pipelines.testing.cases import Case, Sample, compare, decoded


@dataclass(frozen=True)
class Difference:
    """The differences in one topic or dataset."""

    name: str
    lines: list[str]


class SilentObserver:
    """An observer that shows nothing."""

    def batch(self, progress: FlowProgress) -> None:
        """Show nothing."""

    def update(self, flows: object) -> None:
        """Show nothing."""

    def message(self, text: str) -> None:
        """Show nothing."""


class SampleRows:
    """Rows that replace datasets of the pipeline, as JSON files."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._case = case
        self._folder = folder

    def read(self, spark: Any, dataset: Dataset, schema: Callable[[], Any], *, is_stream: bool) -> Any:
        """Return a DataFrame of the rows given for `dataset`, or None if none are given."""
        rows = self._case.inputs.get(dataset.name)
        if rows is None:
            return None
        folder = self._folder / dataset.name
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "rows.json").write_text("".join(json.dumps(row.value) + "\n" for row in rows))
        reader = spark.readStream if is_stream else spark.read
        return reader.schema(schema()).json(str(folder))


def run_case(case: Case, job: Job, spark: Any, registry: Registry, clock: Clock) -> list[Difference]:
    """Run a case with the broker of `job`; return the differences: none if it passed."""
    _check_names(case, registry)
    topics = _topics(case, registry)
    with Admin(job.bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=1) for name in topics])
    _send(case, job.bootstrap, registry)
    ship_imported(spark, job.project, job.storage.data)
    samples = SampleRows(case, job.storage.data / "samples")
    resolver = resolver_of(job, spark, registry, samples=samples)
    state = new_state(job.project.name, str(job.project.folder), job.master, clock.wall_ms())
    Runner(resolver, state, job.options, SilentObserver(), clock).run()
    found = []
    for name, expected in case.expected.items():
        dataset = _stored(name, registry)
        actual = _rows(resolver, dataset) if dataset is not None else received(job.bootstrap, name)
        if lines := compare(expected, actual):
            found.append(Difference(name, lines))
    return found


def received(bootstrap: str, topic: str) -> list[Sample]:
    """Return the committed records of a topic."""
    records: list[ConsumerRecord] = []
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(bootstrap, **options) as consumer:
        partitions = [TopicPartition(topic, each.index) for each in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for polled in consumer.poll(timeout_ms=1_000).values():
                records += polled
    return [_sample(record) for record in records]


def _sample(record: ConsumerRecord) -> Sample:
    headers = {name: (value or b"").decode("utf-8", "backslashreplace") for name, value in record.headers}
    key = record.key.decode("utf-8", "backslashreplace") if record.key is not None else None
    return Sample(decoded(record.value), key, headers, record.timestamp)


def _send(case: Case, bootstrap: str, registry: Registry) -> None:
    with Producer(bootstrap) as producer:
        for name, samples in case.inputs.items():
            if name not in registry.datasets:
                for each in samples:
                    producer.send(
                        name,
                        each.value_bytes(),
                        key=each.key_bytes(),
                        headers=[(key, value.encode()) for key, value in each.headers.items()],
                        timestamp_ms=each.timestamp,
                    )
        producer.flush()


def _topics(case: Case, registry: Registry) -> set[str]:
    """Return the topics of a case: its inputs, and those that the pipeline writes to."""
    written = {
        dataset.topic
        for dataset in registry.datasets.values()
        if dataset.format == TOPIC and dataset.kind != Kind.TEMPORARY_VIEW and dataset.topic
    }
    given = {name for name in case.inputs if name not in registry.datasets}
    expected = {name for name in case.expected if _stored(name, registry) is None}
    return given | expected | written


def _stored(name: str, registry: Registry) -> Dataset | None:
    """Return the dataset of that name if its rows are not in a topic."""
    dataset = registry.datasets.get(name)
    return dataset if dataset is not None and dataset.format != TOPIC and dataset.kind != Kind.SINK else None


def _rows(resolver: Any, dataset: Dataset) -> list[Sample]:
    rows = resolver.read(dataset.name, is_stream=False)
    return [Sample(json.loads(text)) for text in rows.toJSON().collect()]


def _check_names(case: Case, registry: Registry) -> None:
    """Raise PipelineProblem for an expected name that no flow writes to: it would always be empty."""
    sinks = {each.topic for each in registry.datasets.values() if each.format == TOPIC and each.topic}
    # A sink whose records name their topics can write to any topic.
    is_open = any(each.format == TOPIC and not each.topic for each in registry.datasets.values())
    known = sinks | set(registry.datasets)
    for name in case.expected:
        if name not in known and not is_open:
            raise PipelineProblem(
                f"test {case.name!r} expects {name!r}, which the pipeline does not write",
                *did_you_mean(name, known),
            )
