"""Decide when a log is worth compacting, up to which offset, and which segments to merge: the pure part.

A compacted log has a clean head, where each key occurs once, a dirty middle, and a part that must not be
compacted: the active segment, what is above the stable offset, and what is younger than
min.compaction.lag.ms.

    | clean             | dirty                    | uncleanable             |
    log start           first_dirty_offset         first_uncleanable_offset  log end

A compaction reads the dirty part into an offset map (key -> latest offset), then copies the clean and the
dirty part without the records that the map supersedes. It copies whole segments; small neighbours are merged
up to segment.bytes. A log is compacted when more than min.cleanable.dirty.ratio of its cleanable bytes are
dirty, or when something dirty is older than max.compaction.lag.ms. `cleaner-offset-checkpoint` stores where
the last compaction ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ottla.log.log_config import INT_MAX, LONG_MAX, LogConfig

CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"


class SealedSegment(Protocol):
    """The interface of a segment that the policy uses; timestamps are read only if a lag is configured."""

    @property
    def base_offset(self) -> int:
        """The first offset it may hold."""

    @property
    def size_bytes(self) -> int:
        """The size of its log file."""

    @property
    def max_timestamp(self) -> int:
        """Return the timestamp of its newest record, or -1."""

    @property
    def first_timestamp(self) -> int:
        """Return the newest timestamp of its first batch, or -1."""


S = TypeVar("S", bound=SealedSegment)


class CleanableStats(NamedTuple):
    """How much of a log is dirty."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """Return the dirty fraction of what can be compacted."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_worth_cleaning(self, min_ratio: float) -> bool:
        """Return whether the dirty ratio or the maximum lag is exceeded."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > min_ratio)


def compute_cleanable_stats(
    sealed: Sequence[SealedSegment],
    config: LogConfig,
    *,
    active_base_offset: int,
    log_start_offset: int,
    cleaned_to: int | None,
    stable_offset: int,
    now_ms: int,
) -> CleanableStats:
    """Return how much of a log with these sealed segments is dirty.

    `cleaned_to` is where the last compaction ended. A value that does not fit the log (it was truncated, or
    the log start moved past it) is ignored: everything is dirty then.
    """
    first_dirty = log_start_offset if cleaned_to is None else cleaned_to
    if not log_start_offset <= first_dirty <= active_base_offset:
        first_dirty = min(log_start_offset, active_base_offset)
    clean_bytes = dirty_bytes = 0
    oldest_ms = LONG_MAX
    uncleanable = active_base_offset
    for segment, end in _with_ends(sealed, active_base_offset):
        if end <= first_dirty:
            clean_bytes += segment.size_bytes
            continue
        if end > stable_offset or _is_too_young(segment, config.min_compaction_lag_ms, now_ms):
            uncleanable = segment.base_offset
            break
        dirty_bytes += segment.size_bytes
        if config.max_compaction_lag_ms < LONG_MAX and segment.first_timestamp > 0:
            oldest_ms = min(oldest_ms, segment.first_timestamp)
    is_overdue = oldest_ms < now_ms - max(config.max_compaction_lag_ms, 0)
    return CleanableStats(first_dirty, max(first_dirty, uncleanable), clean_bytes, dirty_bytes, is_overdue)


def _with_ends(segments: Sequence[S], end_offset: int) -> Iterator[tuple[S, int]]:
    """Pair each segment with the base offset of the next one."""
    ends = [segment.base_offset for segment in segments[1:]]
    return zip(segments, [*ends, end_offset], strict=False)


def _is_too_young(segment: SealedSegment, min_lag_ms: int, now_ms: int) -> bool:
    return min_lag_ms > 0 and segment.max_timestamp > now_ms - min_lag_ms


def group_segments(segments: Sequence[S], end_offset: int, max_bytes: int) -> Iterator[list[S]]:
    """Yield runs of neighbouring segments that fit into one; `end_offset` is where the last one ends.

    A segment's indexes store offsets relative to its base in 31 bits, so a run must not span more.
    """
    group: list[S] = []
    group_bytes = 0
    for segment, end in _with_ends(segments, end_offset):
        fits = group_bytes + segment.size_bytes <= max_bytes
        if group and not (fits and end - 1 - group[0].base_offset <= INT_MAX):
            yield group
            group, group_bytes = [], 0
        group.append(segment)
        group_bytes += segment.size_bytes
    if group:
        yield group
