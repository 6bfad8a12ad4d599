"""Broker keys of the log's files: how a log is cut into segments, and when segments are deleted.

Most of them are the defaults of topic keys (`topic=`), and topic_keys.py takes type, check and meaning
from here. Defaults and ranges are those of Kafka 4.0; Kafka 4.1 wants segments of 1 MiB and more, which
Ottla does not, so that tests can roll often.
"""

from __future__ import annotations

from ottla.common.config import Config, Importance, Key, Update
from ottla.common.config_types import BOOLEAN, INT, LIST, LONG, NOT_ZERO, STRING, at_least, list_of, only
from ottla.common.units import GIB, KIB, MIB, MINUTE_MS

CLUSTER_WIDE = Update.CLUSTER_WIDE
HIGH = Importance.HIGH


class SegmentKeys(Config):
    """How a log is cut into files, and when files are deleted."""

    log_dir = Key(
        "log.dir",
        STRING,
        "./ottla-data",
        "The directory of all data. `log.dirs` wins over it.",
        importance=HIGH,
        kafka_default="/tmp/kafka-logs",
    )
    log_dirs: Key[tuple[str, ...] | None] = Key(
        "log.dirs",
        LIST,
        None,
        "The directory of all data; if unset, that of `log.dir`. Only one is implemented yet.",
        importance=HIGH,
    )
    log_preallocate = Key(
        "log.preallocate",
        BOOLEAN,
        False,
        "Whether the files of a new segment are made at their full size.",
        check=only(False, "files are not preallocated"),
        update=CLUSTER_WIDE,
        topic="preallocate",
    )
    log_local_retention_ms = Key(
        "log.local.retention.ms",
        LONG,
        -2,
        "How long segments stay here once they are in remote storage; -2: as `log.retention.ms` says.",
        check=only(-2, "there is no remote storage"),
        update=CLUSTER_WIDE,
        topic="local.retention.ms",
    )
    log_local_retention_bytes = Key(
        "log.local.retention.bytes",
        LONG,
        -2,
        "How much stays here once it is in remote storage; -2: as `log.retention.bytes` says.",
        check=only(-2, "there is no remote storage"),
        update=CLUSTER_WIDE,
        topic="local.retention.bytes",
    )
    log_segment_bytes = Key(
        "log.segment.bytes",
        INT,
        GIB,
        "The size at which a segment is closed and the next one begins.",
        check=at_least(14),
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="segment.bytes",
    )
    log_roll_ms: Key[int | None] = Key(
        "log.roll.ms",
        LONG,
        None,
        "The age at which a segment is closed even if it is not full, so that retention and compaction "
        "can reach its records.",
        check=at_least(1),
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="segment.ms",
    )
    log_roll_hours = Key(
        "log.roll.hours",
        INT,
        168,
        "The age in hours at which a segment is closed, if `log.roll.ms` is unset.",
        check=at_least(1),
        importance=HIGH,
        topic="segment.ms",
    )
    log_roll_jitter_ms: Key[int | None] = Key(
        "log.roll.jitter.ms",
        LONG,
        None,
        "The longest random time by which a segment is closed early, so that not all logs roll at once.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="segment.jitter.ms",
    )
    log_roll_jitter_hours = Key(
        "log.roll.jitter.hours",
        INT,
        0,
        "The longest random time in hours by which a segment is closed early, "
        "if `log.roll.jitter.ms` is unset.",
        check=at_least(0),
        importance=HIGH,
        topic="segment.jitter.ms",
    )
    log_index_interval_bytes = Key(
        "log.index.interval.bytes",
        INT,
        4 * KIB,
        "How many bytes of log lie between two entries of its indexes. Fewer bytes find offsets faster "
        "and make the indexes larger.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        topic="index.interval.bytes",
    )
    log_index_size_max_bytes = Key(
        "log.index.size.max.bytes",
        INT,
        10 * MIB,
        "The size of a segment's index at which the segment is closed.",
        check=at_least(4),
        update=CLUSTER_WIDE,
        topic="segment.index.bytes",
    )
    log_retention_ms: Key[int | None] = Key(
        "log.retention.ms",
        LONG,
        None,
        "How long records are kept before their segment is deleted; -1 keeps them for ever.",
        check=NOT_ZERO,
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="retention.ms",
    )
    log_retention_minutes: Key[int | None] = Key(
        "log.retention.minutes",
        INT,
        None,
        "How many minutes records are kept, if `log.retention.ms` is unset.",
        check=NOT_ZERO,
        importance=HIGH,
        topic="retention.ms",
    )
    log_retention_hours = Key(
        "log.retention.hours",
        INT,
        168,
        "How many hours records are kept, if `log.retention.ms` and `log.retention.minutes` are unset.",
        check=NOT_ZERO,
        importance=HIGH,
        topic="retention.ms",
    )
    log_retention_bytes = Key(
        "log.retention.bytes",
        LONG,
        -1,
        "The size of a partition's log above which its oldest segments are deleted; -1 sets no limit.",
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="retention.bytes",
    )
    log_retention_check_interval_ms = Key(
        "log.retention.check.interval.ms",
        LONG,
        5 * MINUTE_MS,
        "How often logs are searched for segments that retention no longer keeps.",
        check=at_least(1),
    )
    log_segment_delete_delay_ms = Key(
        "log.segment.delete.delay.ms",
        LONG,
        MINUTE_MS,
        "How long the files of a deleted segment stay on disk, for readers that are still at it.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="file.delete.delay.ms",
    )
    log_cleanup_policy = Key(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        "What happens to old segments: `delete` drops them when retention says so, `compact` keeps the "
        "latest record of every key, `compact,delete` does both.",
        check=list_of("compact", "delete"),
        update=CLUSTER_WIDE,
        topic="cleanup.policy",
    )
