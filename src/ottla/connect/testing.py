"""The test kit for connectors: runs readers and writers as a worker does, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.connect.config.validation import Validation, validate
from ottla.connect.data.record import RawRecord, Record
from ottla.connect.engine.pipeline import Pipeline
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.options import DEFAULT_CONVERTERS
from ottla.connect.plugins import Plugins
from ottla.connect.sdk import Batch, Offsets, Refused, SinkConnector, SourceConnector

MAX_BATCHES = 1_000


def check_config(kind: type[SourceConnector | SinkConnector], config: Mapping[str, str]) -> Validation:
    """Validate a config as PUT /connector-plugins/NAME/config/validate does."""
    plugins = Plugins.load()
    plugins.connectors[kind.class_name()] = kind
    return validate(plugins, {"name": "test", **config, "connector.class": kind.class_name()})


def read_source(
    kind: type[SourceConnector],
    config: Mapping[str, str],
    *,
    offsets: Offsets | None = None,
    batches: int = MAX_BATCHES,
    each_batch_twice: bool = True,
) -> list[Record]:
    """Return the records of a source until it has no more; each batch is read twice, and must be the same."""
    connector = kind("test", config)
    found: list[Record] = []
    for task in connector.task_configs(1):
        reader = pickle.loads(pickle.dumps(kind("test", task).reader(task)))  # noqa: S301 - as Spark does
        start = reader.initial(offsets or {})
        for _ in range(batches):
            end = reader.latest(start)
            if end == start:
                break
            parts = [pickle.loads(pickle.dumps(each)) for each in reader.plan(start, end)]  # noqa: S301
            records = [record for part in parts for record in reader.read(part)]
            if each_batch_twice:
                again = [record for part in parts for record in reader.read(part)]
                assert again == records, "a batch that is read again has other records"
            found += records
            reader.commit(end)
            start = end
    return found


def write_sink(
    kind: type[SinkConnector], config: Mapping[str, str], records: Iterable[Record], *, number: int = 0
) -> list[Refused]:
    """Write one batch with a sink, and return the records that it refuses."""
    writer = pickle.loads(pickle.dumps(kind("test", config).writer(config)))  # noqa: S301 - as Spark does
    batch = Batch("test", number, "test", 0)
    refused: list[Refused] = []
    if writer.prepare(batch):
        message: Any = writer.write(iter(records), batch, refused)
        writer.commit(batch, [] if message is None else [message])
    return refused


def pipeline_of(config: Mapping[str, str]) -> Pipeline:
    """Return the converters and transforms of a config."""
    spec = TaskSpec("test", 0, 0, "source", "", config, DEFAULT_CONVERTERS)
    return Pipeline.of(spec)


def transformed(config: Mapping[str, str], record: Record) -> Record | None:
    """Return a record after the transforms of a config."""
    return pipeline_of(config).transform(record)


def converted(config: Mapping[str, str], record: Record) -> RawRecord | None:
    """Return a record in bytes."""
    return pipeline_of(config).outgoing(record)
