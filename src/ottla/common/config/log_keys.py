"""Broker keys of the log: compaction, appending and flushing, segments and retention.

Most of them are the defaults of topic keys (`topic=`), and topic.py takes kind, check and meaning from here.
Defaults and ranges are those of Kafka 4.0; Kafka 4.1 requires segments of at least 1 MiB, which Ottla does
not, so that tests can roll often.
"""

from __future__ import annotations

from ottla.common.config.declaration import Config, Importance, Key, Update
from ottla.common.config.types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    NOT_ZERO,
    STRING,
    Check,
    at_least,
    between,
    list_of,
    one_of,
    only,
)
from ottla.common.units import DAY_MS, GIB, HOUR_MS, KIB, MAX_LONG, MIB, MINUTE_MS, SECOND_MS

CLUSTER_WIDE = Update.CLUSTER_WIDE
HIGH = Importance.HIGH


class CleanerKeys(Config):
    """How compacted logs are cleaned."""

    log_cleaner_enable = Key(
        "log.cleaner.enable",
        BOOLEAN,
        True,
        "Whether logs are compacted. Without it, compacted topics only grow.",
    )
    log_cleaner_threads = Key(
        "log.cleaner.threads",
        INT,
        1,
        "How many logs are compacted at the same time.",
        check=at_least(0),
        update=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = Key(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 * MIB,
        "The memory that all cleaner threads together may use to remember keys.",
        update=CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor = Key(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full that memory may become before the rest of the log is left to the next pass.",
        update=CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = Key(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "How many bytes a second the cleaner may read and write, on average.",
        update=CLUSTER_WIDE,
    )
    log_cleaner_backoff_ms = Key(
        "log.cleaner.backoff.ms",
        LONG,
        15 * SECOND_MS,
        "How long the cleaner waits when there is nothing to clean.",
        check=at_least(0),
        update=CLUSTER_WIDE,
    )
    log_cleaner_min_cleanable_ratio = Key(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Which part of a log must be new since the last compaction before it is compacted again.",
        check=between(0, 1),
        update=CLUSTER_WIDE,
        topic="min.cleanable.dirty.ratio",
    )
    log_cleaner_delete_retention_ms = Key(
        "log.cleaner.delete.retention.ms",
        LONG,
        DAY_MS,
        "How long a compacted log keeps the tombstone of a deleted key, so that slow readers see it; longer "
        "while a replica is out of sync.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        topic="delete.retention.ms",
    )
    log_cleaner_min_compaction_lag_ms = Key(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "How long a record is safe from compaction.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        topic="min.compaction.lag.ms",
    )
    log_cleaner_max_compaction_lag_ms = Key(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        MAX_LONG,
        "How long a record may at most wait for compaction, whatever the ratio of new records is.",
        check=at_least(1),
        update=CLUSTER_WIDE,
        topic="max.compaction.lag.ms",
    )


COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


class AppendKeys(Config):
    """What is accepted into a log, and when it is on disk."""

    message_max_bytes = Key(
        "message.max.bytes",
        INT,
        MIB + 12,
        "The largest record batch that is accepted, after compression.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="max.message.bytes",
    )
    compression_type = Key(
        "compression.type",
        STRING,
        "producer",
        "How batches are compressed on disk. `producer` keeps them as they were sent; `uncompressed`, "
        "`gzip`, `snappy`, `lz4` and `zstd` rewrite those that differ.",
        check=one_of(*COMPRESSION_TYPES),
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="compression.type",
    )
    compression_gzip_level = Key(
        "compression.gzip.level",
        INT,
        -1,
        "The level with which batches are compressed anew, where `compression.type` is `gzip`; -1 is zlib's.",
        check=Check("-1, or between 1 and 9", lambda value: value == -1 or 1 <= value <= 9),
        update=CLUSTER_WIDE,
        topic="compression.gzip.level",
    )
    compression_lz4_level = Key(
        "compression.lz4.level",
        INT,
        9,
        "The level with which batches are compressed anew, where `compression.type` is `lz4`; 9 is fast.",
        check=between(1, 17),
        update=CLUSTER_WIDE,
        topic="compression.lz4.level",
    )
    compression_zstd_level = Key(
        "compression.zstd.level",
        INT,
        3,
        "The level with which batches are compressed anew, where `compression.type` is `zstd`.",
        check=between(-131_072, 22),
        update=CLUSTER_WIDE,
        topic="compression.zstd.level",
    )
    log_message_timestamp_type = Key(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "The clock of a record's timestamp: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
        check=one_of("CreateTime", "LogAppendTime"),
        update=CLUSTER_WIDE,
        topic="message.timestamp.type",
    )
    log_message_timestamp_before_max_ms = Key(
        "log.message.timestamp.before.max.ms",
        LONG,
        MAX_LONG,
        "How far a record's timestamp may lie before the broker's clock. Not used with `LogAppendTime`.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        topic="message.timestamp.before.max.ms",
    )
    log_message_timestamp_after_max_ms = Key(
        "log.message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "How far a record's timestamp may lie after the broker's clock. Not used with `LogAppendTime`.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        topic="message.timestamp.after.max.ms",
    )
    log_flush_interval_messages = Key(
        "log.flush.interval.messages",
        LONG,
        MAX_LONG,
        "How many records may be appended to a log before it is flushed to disk. With 1, records are on "
        "disk before they are acknowledged.",
        check=at_least(1),
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="flush.messages",
    )
    log_flush_interval_ms: Key[int | None] = Key(
        "log.flush.interval.ms",
        LONG,
        None,
        "How long a record may wait before it is flushed to disk.",
        check=at_least(0),
        update=CLUSTER_WIDE,
        importance=HIGH,
        topic="flush.ms",
    )
    log_flush_scheduler_interval_ms = Key(
        "log.flush.scheduler.interval.ms",
        LONG,
        MAX_LONG,
        "How long a record may wait before it is flushed to disk, if `log.flush.interval.ms` is unset.",
        check=at_least(0),
        importance=HIGH,
        topic="flush.ms",
    )
    log_flush_offset_checkpoint_interval_ms = Key(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "How often the recovery points are written, below which a restart after a crash need not look.",
        check=at_least(0),
        importance=HIGH,
    )
    log_flush_start_offset_checkpoint_interval_ms = Key(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "How often the log start offsets are written, so that deleted records stay deleted after a crash.",
        check=at_least(0),
        importance=HIGH,
    )
    producer_id_expiration_ms = Key(
        "producer.id.expiration.ms",
        INT,
        DAY_MS,
        "How long a partition remembers an idle producer, to recognise batches that are sent twice.",
        check=at_least(1),
        update=CLUSTER_WIDE,
        importance=Importance.LOW,
    )
    ottla_producer_ids_max = Key(
        "ottla.producer.ids.max",
        INT,
        250_000,
        "How many idempotent producers a broker remembers, each counted once per partition that it writes to "
        "(about 1 KiB of memory). Beyond it new producers are refused with KAFKA_STORAGE_ERROR, which "
        "clients retry, until others expire.",
        check=at_least(1),
        update=CLUSTER_WIDE,
        importance=Importance.LOW,
    )


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
        "The directories of the data, with commas, one for each disk; if unset, that of `log.dir`. New "
        "replicas are placed by free space; a disk that fails takes its own replicas offline.",
        importance=HIGH,
    )
    log_preallocate = Key(
        "log.preallocate",
        BOOLEAN,
        False,
        "Whether the files of a new segment are made at their full size.",
        check=only(False, "files are not preallocated"),
        topic="preallocate",
    )
    log_local_retention_ms = Key(
        "log.local.retention.ms",
        LONG,
        -2,
        "How long segments stay here once they are in remote storage; -2: as `log.retention.ms` says.",
        check=only(-2, "there is no remote storage"),
        topic="local.retention.ms",
    )
    log_local_retention_bytes = Key(
        "log.local.retention.bytes",
        LONG,
        -2,
        "How much stays here once it is in remote storage; -2: as `log.retention.bytes` says.",
        check=only(-2, "there is no remote storage"),
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
        "How long records are kept before their segment is deleted; -1 keeps them forever.",
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
        "How often segments are checked against the retention settings.",
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
