"""`upsert`: write the newest row of each key to a compacted topic, exactly once.

    from ottla.spark import upsert

    counts = words.groupBy("word").count()
    query = upsert(counts, topic="counts", key="word", checkpoint="/var/lib/counts", **broker)

Spark has no update mode for Python sinks: each batch is written through foreachBatch by the batch writer,
whose decision log makes it exactly once (docs/spark.md). Read the topic with `table` and `changelog`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from ottla.client.admin.topic_admin import NewTopic, TopicAdmin
from ottla.client.cluster import Cluster
from ottla.protocol.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from ottla.spark.changelogs import Upserts, names_of
from ottla.spark.cluster_session import cluster_session
from ottla.spark.errors import WrongOption
from ottla.spark.sink.writing import read_sink_options

log = logging.getLogger(__name__)

FORMAT = "ottla"
POLICY, COMPACT = "cleanup.policy", "compact"
APPEND, UPDATE = "append", "update"


def upsert(
    frame: Any,
    *,
    topic: str,
    key: str | Sequence[str],
    checkpoint: str = "",
    deleted: Any = None,
    sequence_by: str = "",
    value: str = "",
    output_mode: str = UPDATE,
    name: str = "",
    trigger: str = "",
    available_now: bool = False,
    partitions: int = -1,
    replication_factor: int = -1,
    topic_configs: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """Write the newest row of each key to a compacted topic; return the StreamingQuery.

    `key` names one column (the record's key is its text) or several (a JSON object). The value is the row as
    JSON, or the column `value`. Where `deleted` (SQL, a boolean column, or its name) holds, or the value is
    null, a tombstone is written. If a batch can have different rows of a key, `sequence_by` names the column
    whose highest value wins; without it such a batch fails.

    A missing topic is created with cleanup.policy=compact. `output_mode` may be `append`, for queries that
    Spark runs in no other. `options` are those of the format `ottla`. A frame that is not a stream is
    written at once, in one transaction; it needs no checkpoint, and None is returned.
    """
    if output_mode not in (APPEND, UPDATE):
        raise WrongOption("output_mode", "is update or append")
    if frame.isStreaming and not checkpoint:
        raise WrongOption("checkpoint", "must name a folder: exactly-once needs one that survives restarts")
    upserts = Upserts(names_of(key), value, deleted, sequence_by, is_serialized(options))
    upserts.check(frame.columns)
    given = {**{each: _text(option) for each, option in options.items()}, "topic": topic}
    ensure_compacted(given, partitions, replication_factor, topic_configs)
    write = writer_of_batches(upserts, given)
    if not frame.isStreaming:
        return write(frame, 0)
    writer = frame.writeStream.outputMode(output_mode).option("checkpointLocation", checkpoint)
    writer = writer.queryName(name) if name else writer
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger:
        writer = writer.trigger(processingTime=trigger)
    return writer.foreachBatch(write).start()


def _text(option: Any) -> str:
    """Return an option as Spark's writers give it."""
    return str(option).lower() if isinstance(option, bool) else str(option)


def is_serialized(options: Mapping[str, Any]) -> bool:
    """Whether values are written with a schema of a registry."""
    return any(name.lower() == "serialize" for name in options)


def writer_of_batches(upserts: Upserts, options: Mapping[str, str]) -> Callable[[Any, int], None]:
    """Return the function that writes each batch, for foreachBatch."""
    given = dict(options)

    def write(batch: Any, batch_id: int) -> None:
        upserts.records(batch).write.format(FORMAT).mode("append").options(**given).save()

    return write


def ensure_compacted(
    options: Mapping[str, str],
    partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create the topic of a write as a compacted one if it is missing; warn if it is not compacted."""
    found = read_sink_options(options)
    assert found.topic is not None
    new = NewTopic(found.topic, partitions, replication_factor, {POLICY: COMPACT, **(configs or {})})
    session = cluster_session(found.producer)
    policy = session.run(_created(session.cluster, new))
    if COMPACT not in policy:
        log.warning(
            "the topic %s has %s=%s: rows are deleted when they are old. For a table: "
            "ottla topic alter %s --set %s=%s",
            *(found.topic, POLICY, policy, found.topic, POLICY, COMPACT),
        )


async def _created(cluster: Cluster, topic: NewTopic) -> str:
    """Create a topic unless it exists; return its cleanup policy."""
    admin = TopicAdmin(cluster)
    try:
        await cluster.topic(topic.name)
    except UnknownTopicOrPartition:
        outcome = (await admin.create_topics([topic]))[topic.name]
        if isinstance(outcome, KafkaError) and not isinstance(outcome, TopicAlreadyExists):
            raise outcome from None
        unknown = frozenset({ErrorCode.unknown_topic_or_partition})
        await cluster.retrying(lambda: cluster.refresh([topic.name]), also=unknown)
    return (await admin.topics_config(POLICY, [topic.name])).get(topic.name, COMPACT)
