"""The results of a log's operations."""

from __future__ import annotations

from typing import NamedTuple

from ottla.common.file_range import FileRange


class AppendResult(NamedTuple):
    """The result of an append."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 for topics with CreateTime."""
    log_start_offset: int
    is_duplicate: bool


class LogRead(NamedTuple):
    """Whole batches, and the offset after them."""

    records: FileRange | bytes
    next_offset: int


class TimestampOffset(NamedTuple):
    """A record that was found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


class UnreadableRange(NamedTuple):
    """Offsets that recovery found unreadable between intact batches."""

    first_offset: int
    next_offset: int
