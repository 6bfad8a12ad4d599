"""The task's part of a write: send rows in a transaction, prepare it, and leave its end to the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from ottla.client.producer.options import ProducerOptions
from ottla.common.clock import SystemClock
from ottla.spark.checkpoint_lock import CHECKPOINT_OPTION, local_folder
from ottla.spark.cluster_session import cluster_session
from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.options import (
    DELIVERY_GUARANTEE,
    EXACTLY_ONCE,
    INCLUDE_HEADERS,
    INCLUDE_TIMESTAMP,
    SINK,
    GivenOptions,
)
from ottla.spark.sink import crash_points
from ottla.spark.sink.decision_log import decision_log
from ottla.spark.sink.decisions import MAIN, Prepared, Register, SinkKey, is_decided
from ottla.spark.sink.ending import two_phase
from ottla.spark.sink.row_encoder import RowEncoder
from ottla.spark.sink.rows import Layout
from ottla.spark.sink.serializing import SerializeOptions, read_serialize_options
from ottla.spark.sink.transaction import BatchProducer
from ottla.spark.worker import TaskInfo, freeze_modules

# The options of the sink.

TRANSACTION_TIMEOUT_MS = 15 * 60_000
EARLY_VALID_MS = 500
"""A task that waited longer for its rows may have been replaced: it looks again before it takes the id."""


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write."""

    topic: str | None
    producer: ProducerOptions
    is_exactly_once: bool
    sink: str | None
    """The name that the user gave, if any."""
    with_headers: bool
    with_timestamp: bool
    serialize: SerializeOptions | None = None
    checkpoint: Path | None = None
    """The folder of the query's checkpoint, if it is in a mounted file system."""


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a write; raise WrongOption for the first invalid one."""
    given = GivenOptions(options, SINK)
    fixed = {}
    if "transaction.timeout.ms" not in given.client_values:
        fixed["transaction_timeout_ms"] = TRANSACTION_TIMEOUT_MS
    sink = given.text("sinkName")
    if sink is not None and ("/" in sink or sink == MAIN or sink.isdigit()):
        raise WrongOption("sinkName", f"must be a name other than {MAIN}, not a number, and without /")
    return SinkOptions(
        topic=given.text("topic"),
        producer=given.client(ProducerOptions, **fixed),
        is_exactly_once=given.value(DELIVERY_GUARANTEE) == EXACTLY_ONCE,
        sink=sink,
        with_headers=given.value(INCLUDE_HEADERS) is not False,
        with_timestamp=given.value(INCLUDE_TIMESTAMP),
        serialize=read_serialize_options(given),
        checkpoint=_checkpoint(options),
    )


def _checkpoint(options: Mapping[str, str]) -> Path | None:
    found = [value for name, value in options.items() if name.lower() == CHECKPOINT_OPTION]
    return local_folder(found[0]) if found else None


# The batch that a task writes, and its message to the driver.


@dataclass(frozen=True)
class Target:
    """The batch and the sink that a task writes."""

    key: SinkKey
    batch_id: int
    run_id: str
    writer_id: str
    plan: str | None = None


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """The message of a task to the driver."""

    key: SinkKey | None
    batch_id: int
    run_id: str
    writer_id: str
    transaction: Prepared | None
    is_decided: bool = False
    """Whether nothing was written, because the batch is already decided."""
    attempt: int = 0
    rows: int = 0
    plan: str | None = None
    """What the batch was planned to read, if the task knows."""


def write_exactly_once(
    rows: Iterator[Any], target: Target, layout: Layout, options: SinkOptions, place: TaskInfo
) -> TaskCommitMessage:
    """Write the rows of one task into a transaction, and prepare it."""
    freeze_modules()
    if place.speculates:
        raise SparkError(
            "exactly-once does not work with spark.speculation: two attempts would write the same rows at "
            "the same time. Set spark.speculation to false"
        )
    key, batch_id, run_id, writer_id = target.key, target.batch_id, target.run_id, target.writer_id
    nothing = TaskCommitMessage(
        key, batch_id, run_id, writer_id, None, attempt=place.attempt, plan=target.plan
    )
    session = cluster_session(options.producer, waits_for_brokers=True)
    decisions = decision_log(session, options.producer)
    clock = SystemClock()
    began_ms = clock.mono_ms()
    early = session.begin(decisions.owned(key, run_id))  # while the first rows are awaited
    try:
        first = next((each for each in rows if each.num_rows), None)
    except BaseException:
        early.cancel()
        raise

    def has_been_decided(register: Register) -> bool:
        nothing.is_decided = is_decided(register, batch_id, run_id, writer_id)
        return nothing.is_decided

    register = early.result()
    if clock.mono_ms() - began_ms > EARLY_VALID_MS:
        register = session.run(decisions.owned(key, run_id))
    if has_been_decided(register):
        return _drained(rows, nothing)
    if first is None:
        return nothing
    crash_points.reached(crash_points.BEFORE_INIT, batch_id, key.query_id)
    producer = BatchProducer(session, two_phase(options.producer, key.transactional_id(place.partition)))
    try:
        producer.begin(lambda left: decisions.settle(key, run_id, left))
        crash_points.reached(crash_points.AFTER_INIT, batch_id, key.query_id)
        if has_been_decided(session.run(decisions.owned(key, run_id))):
            # by another attempt, before we took over the id: a transaction of ours would never be ended
            return _drained(rows, nothing)
        try:
            count = _send_all(first, rows, producer, layout, options)
            crash_points.reached(crash_points.AFTER_PRODUCE, batch_id, key.query_id)
            nothing.transaction = producer.prepare()
        except BaseException:
            producer.abort()
            raise
        nothing.rows = count
    finally:
        producer.close()
    crash_points.reached(crash_points.AFTER_PREPARE, batch_id, key.query_id)
    return nothing


def _drained(rows: Iterator[Any], nothing: TaskCommitMessage) -> TaskCommitMessage:
    """Read the remaining rows: Spark reuses a worker only if it has read to the end."""
    for _ in rows:
        pass
    return nothing


def write_at_least_once(rows: Iterator[Any], layout: Layout, options: SinkOptions) -> TaskCommitMessage:
    """Write the rows of one task, and wait for their delivery."""
    freeze_modules()
    first = next((each for each in rows if each.num_rows), None)
    if first is None:
        return TaskCommitMessage(None, -1, "", "", None)
    producer = BatchProducer(cluster_session(options.producer, waits_for_brokers=True), options.producer)
    try:
        count = _send_all(first, rows, producer, layout, options)
        producer.flush()
    finally:
        producer.close()
    return TaskCommitMessage(None, -1, "", "", None, rows=count)


def _send_all(
    first: Any,
    rows: Iterator[Any],
    producer: BatchProducer,
    layout: Layout,
    options: SinkOptions,
) -> int:
    encoder = RowEncoder(
        layout,
        options.producer,
        producer.partition_count,
        SystemClock(),
        transactional=options.is_exactly_once,
        serialize=options.serialize,
    )
    producer.send(encoder.add(first))
    for batch in rows:
        producer.send(encoder.add(batch))
    producer.send(encoder.rest())
    return encoder.rows
