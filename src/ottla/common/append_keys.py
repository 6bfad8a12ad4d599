"""Broker keys of appending: what is accepted into a log, how it is stamped, and when it is on disk."""

from __future__ import annotations

from ottla.common.config import Config, Importance, Key, Update
from ottla.common.config_types import INT, LONG, STRING, Check, at_least, between, one_of
from ottla.common.units import DAY_MS, HOUR_MS, MAX_LONG, MIB, MINUTE_MS

CLUSTER_WIDE = Update.CLUSTER_WIDE
HIGH = Importance.HIGH

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
        "Whose clock stamps a record: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
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
