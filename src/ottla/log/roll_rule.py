"""When a log starts a new segment: the active one is full, old, or out of numbers."""

from __future__ import annotations

from zlib import crc32

from ottla.log.log_config import INT_MAX, LogConfig
from ottla.log.segment import Segment
from ottla.protocol.errors import RecordListTooLarge

_LARGEST_ENTRY = 12
_BELOW_ALL = -2
"""Smaller than every timestamp and offset, so that the next append asks `is_due`."""


class RollRule:
    """Decides it for one log; `after_ms` and `after_offset` spare most appends the asking."""

    __slots__ = ("_config", "after_ms", "after_offset")

    def __init__(self, config: LogConfig) -> None:
        self.reset(config)

    def reset(self, config: LogConfig) -> None:
        """Start afresh: there is another active segment, or another configuration."""
        self._config = config
        self.after_ms = _BELOW_ALL
        self.after_offset = _BELOW_ALL

    def is_due(self, active: Segment, size: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        """Return whether a batch must not go into the active segment any more.

        Age is counted from the first batch's timestamp to this one's, or by the clock if that has none.
        """
        config = self._config
        if size > config.segment_bytes:
            raise RecordListTooLarge(f"the batch has {size} bytes, segment.bytes is {config.segment_bytes}")
        if active.size_bytes == 0:
            return False
        first_ms = active.first_timestamp
        max_age_ms = config.max_segment_age_ms
        max_age_ms -= self._jitter_ms(active, max_age_ms)
        age_ms = timestamp - first_ms if first_ms >= 0 else now_ms - active.created_ms
        if (
            active.size_bytes + size > config.segment_bytes
            or age_ms > max_age_ms
            or last_offset - active.base_offset > INT_MAX
            or active.index_bytes + _LARGEST_ENTRY > config.segment_index_bytes
        ):
            return True
        if first_ms >= 0:
            self.after_ms = first_ms + max_age_ms
        most_entries = config.segment_bytes // max(1, config.index_interval_bytes)
        if most_entries * _LARGEST_ENTRY < config.segment_index_bytes:
            self.after_offset = active.base_offset + INT_MAX
        return False

    def _jitter_ms(self, active: Segment, max_age_ms: int) -> int:
        """Spread the rolls of many logs; one segment always gets the same share."""
        jitter_ms = min(self._config.segment_jitter_ms, max_age_ms)
        if jitter_ms <= 0:
            return 0
        return crc32(f"{active.files.directory}/{active.base_offset}".encode()) % jitter_ms
