"""The topic configs that a log uses, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ottla.common.config.schema_keys import TOPIC_NAME
from ottla.common.config.topic import TopicConfig

LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The configuration of a topic's logs; replaced as a whole when it changes."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    timestamp_type: str = "CreateTime"
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    file_delete_delay_ms: int = 60_000
    confluent_key_schema_validation: bool = False
    confluent_value_schema_validation: bool = False
    confluent_key_subject_name_strategy: str = TOPIC_NAME
    confluent_value_subject_name_strategy: str = TOPIC_NAME
    ottla_key_schema_decoding: bool = False
    ottla_value_schema_decoding: bool = False

    @classmethod
    def from_topic_config(cls, topic_config: TopicConfig) -> LogConfig:
        """Read every field from the attribute that carries Kafka's name for it."""
        values = {name: getattr(topic_config, key) for name, key in _KEYS.items()}
        values["cleanup_policy"] = frozenset(values["cleanup_policy"])
        return cls(**values)

    @property
    def is_compacted(self) -> bool:
        """Return whether the cleaner keeps only the latest record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def validates_schemas(self) -> bool:
        """Return whether records must name a schema that is registered."""
        return self.confluent_key_schema_validation or self.confluent_value_schema_validation

    @property
    def compression_level(self) -> int:
        """Return the level for recompressing batches, for codecs that have one."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type, 0)

    @property
    def max_segment_age_ms(self) -> int:
        """Return the age at which a segment is sealed: records in the active one cannot be compacted."""
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def uses_log_append_time(self) -> bool:
        """Return whether the broker, not the producer, sets the records' timestamps."""
        return self.timestamp_type == "LogAppendTime"


_RENAMED = {
    "timestamp_type": "message_timestamp_type",
    "timestamp_before_max_ms": "message_timestamp_before_max_ms",
    "timestamp_after_max_ms": "message_timestamp_after_max_ms",
}
_KEYS = {field.name: _RENAMED.get(field.name, field.name) for field in fields(LogConfig)}
