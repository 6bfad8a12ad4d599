"""Broker keys of compaction: how logs that keep the latest record of every key are cleaned."""

from __future__ import annotations

from ottla.common.config import Config, Key, Update
from ottla.common.config_types import BOOLEAN, DOUBLE, INT, LONG, at_least, between
from ottla.common.units import DAY_MS, MAX_LONG, MIB, SECOND_MS

CLUSTER_WIDE = Update.CLUSTER_WIDE


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
        "How long the cleaner rests when there is nothing to clean.",
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
        "How long a compacted log keeps the tombstone of a deleted key, so that slow readers see it.",
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
