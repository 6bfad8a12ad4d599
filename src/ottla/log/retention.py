"""Which segments a log may let go: by its start offset, its size and their age.

Segments go oldest first and whole; each rule takes a prefix of what the rules before it left,
in Kafka's order:

    start   the next segment starts at or below the log start offset (DeleteRecords moved it there)
    size    without the segment the log still has retention.bytes
    time    the segment's newest record is older than retention.ms

`start` holds for every log, `size` and `time` only where cleanup.policy says delete. No rule reaches past the
high watermark. The active segment may go too, unless it is empty: it is rolled first.
Deciding is pure; `apply_retention` does it. Files are only renamed here (`.deleted`), the janitor
removes them after file.delete.delay.ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.log.log import Log
from ottla.log.log_config import LogConfig

SEGMENTS_AT_ONCE = 8
"""Each takes four renames."""


class AgingSegment(Protocol):
    """What retention needs to know of a segment; ages are asked for only as far as they matter."""

    @property
    def base_offset(self) -> int:
        """The first offset it may hold."""

    @property
    def size_bytes(self) -> int:
        """The size of its log file."""

    @property
    def max_timestamp(self) -> int:
        """Its newest record, or -1."""

    def modified_ms(self) -> int:
        """When its log file last changed."""


class Breach(NamedTuple):
    """The oldest `segment_count` segments that are left break one rule."""

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
) -> list[Breach]:
    """Return what breaks which rule, to be removed from the front one breach after the other."""
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
        Breach(by_start, f"below the log start offset {log_start_offset}"),
        Breach(by_size - by_start, f"retention.bytes={config.retention_bytes}"),
        Breach(by_time - by_size, f"retention.ms={config.retention_ms}"),
    )
    return [breach for breach in found if breach.segment_count]


def _over_size(segments: Sequence[AgingSegment], at: int, end: int, retention_bytes: int) -> int:
    """Return how far the size rule reaches when it starts at segment `at`."""
    if retention_bytes < 0:
        return at
    excess = sum(segment.size_bytes for segment in segments[at:]) - retention_bytes
    while at < end and segments[at].size_bytes <= excess:
        excess -= segments[at].size_bytes
        at += 1
    return at


def _over_age(segments: Sequence[AgingSegment], at: int, end: int, retention_ms: int, now_ms: int) -> int:
    """Return how far the time rule reaches when it starts at segment `at`."""
    if retention_ms < 0:
        return at
    while at < end and now_ms - _newest_ms(segments[at]) > retention_ms:
        at += 1
    return at


def _newest_ms(segment: AgingSegment) -> int:
    """Records without timestamps are as old as their file."""
    newest_ms = segment.max_timestamp
    return newest_ms if newest_ms >= 0 else segment.modified_ms()


def apply_retention(
    log: Log, high_watermark: int, now_ms: int, *, max_segments: int = SEGMENTS_AT_ONCE
) -> list[str]:
    """Take out the oldest segments that break a rule, no more than `max_segments` to keep it short.

    Returns the renamed files, for the caller to remove later; once there are none, nothing is left to do.
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
