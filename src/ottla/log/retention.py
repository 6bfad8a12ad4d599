"""Decide which segments of a log may be deleted: by log start offset, size and age.

Whole segments are deleted, oldest first; each rule applies to what the rules before it left, in Kafka's
order:

    start   the next segment starts at or below the log start offset (DeleteRecords moved it there)
    size    without the segment the log still has retention.bytes
    time    the segment's newest record is older than retention.ms

`start` applies to every log, `size` and `time` only if cleanup.policy contains delete. No rule applies above
the high watermark. The active segment is rolled before it is deleted; it stays if it is empty. Deciding is
pure; `apply_retention` carries it out. Files are renamed to `.deleted` here; maintenance.py removes them
after file.delete.delay.ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.log.log import Log
from ottla.log.log_config import LogConfig

MAX_SEGMENTS_PER_CALL = 8
"""Each takes four renames."""


class AgingSegment(Protocol):
    """The interface of a segment that retention uses; ages are read only as far as they matter."""

    @property
    def base_offset(self) -> int:
        """The first offset it may hold."""

    @property
    def size_bytes(self) -> int:
        """The size of its log file."""

    @property
    def max_timestamp(self) -> int:
        """Return the timestamp of its newest record, or -1."""

    def modified_ms(self) -> int:
        """Return when its log file last changed."""


class ExpiredSegments(NamedTuple):
    """The oldest `segment_count` of the remaining segments exceed one limit."""

    segment_count: int
    reason: str


def find_breaches(
    segments: Sequence[AgingSegment],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> list[ExpiredSegments]:
    """Return which segments exceed which limit, to be removed from the front in this order."""
    ends = [segment.base_offset for segment in segments[1:]]
    removable = sum(1 for end in ends if end <= high_watermark)
    if removable == len(ends) and log_end_offset <= high_watermark and segments[-1].size_bytes > 0:
        removable += 1
    by_start = min(removable, sum(1 for end in ends if end <= log_start_offset))
    by_size = by_time = by_start
    if "delete" in config.cleanup_policy:
        by_size = _over_size(segments, by_start, removable, config.retention_bytes)
        by_time = _over_age(segments, by_size, removable, config.retention_ms, now_ms)
    found = (
        ExpiredSegments(by_start, f"below the log start offset {log_start_offset}"),
        ExpiredSegments(by_size - by_start, f"retention.bytes={config.retention_bytes}"),
        ExpiredSegments(by_time - by_size, f"retention.ms={config.retention_ms}"),
    )
    return [breach for breach in found if breach.segment_count]


def _over_size(segments: Sequence[AgingSegment], first: int, end: int, retention_bytes: int) -> int:
    """Return how far the size rule applies when it starts at segment `first`."""
    if retention_bytes < 0:
        return first
    excess = sum(segment.size_bytes for segment in segments[first:]) - retention_bytes
    while first < end and segments[first].size_bytes <= excess:
        excess -= segments[first].size_bytes
        first += 1
    return first


def _over_age(segments: Sequence[AgingSegment], first: int, end: int, retention_ms: int, now_ms: int) -> int:
    """Return how far the time rule applies when it starts at segment `first`."""
    if retention_ms < 0:
        return first
    while first < end and now_ms - _newest_ms(segments[first]) > retention_ms:
        first += 1
    return first


def _newest_ms(segment: AgingSegment) -> int:
    """Return the newest timestamp; records without timestamps are as old as their file."""
    newest_ms = segment.max_timestamp
    return newest_ms if newest_ms >= 0 else segment.modified_ms()


def apply_retention(
    log: Log, high_watermark: int, now_ms: int, *, max_segments: int = MAX_SEGMENTS_PER_CALL
) -> list[str]:
    """Remove the oldest segments that exceed a limit, at most `max_segments`.

    Returns the renamed files, for the caller to remove later; empty if there is nothing to delete.
    """
    segments = list(log.segments)
    breaches = find_breaches(
        segments,
        log.config,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=high_watermark,
        now_ms=now_ms,
    )
    renamed: list[str] = []
    for count, reason in breaches:
        going, segments = segments[:count], segments[count:]
        if not segments and count <= max_segments:
            log.roll()
        renamed += log.remove_segments(going[:max_segments], reason)
        max_segments -= count
        if max_segments <= 0:
            break
    return renamed
