from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.compaction.policy import CleanableStats, compute_cleanable_stats, group_segments
from ottla.log.log_config import LogConfig

NOW = 1_700_000_000_000
HOUR = 3_600_000
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))


@dataclass
class Described:
    """A sealed segment as the plan sees it."""

    base_offset: int
    size_bytes: int = 100
    max_timestamp: int = NOW
    first_timestamp: int = NOW


def dirt(segments: list[Described], config: LogConfig = COMPACT, **given: int | None) -> CleanableStats:
    """Segments of ten offsets each; the active one starts after them."""
    facts: dict[str, int | None] = {
        "active_base_offset": 10 * len(segments),
        "log_start_offset": 0,
        "cleaned_to": None,
        "stable_offset": 10**6,
        "now_ms": NOW,
    }
    return compute_cleanable_stats(segments, config, **(facts | given))  # type: ignore[arg-type]


def four() -> list[Described]:
    return [Described(10 * number) for number in range(4)]


def test_a_log_that_was_never_cleaned_is_all_dirty() -> None:
    assert dirt(four()) == CleanableStats(0, 40, 0, 400, False)
    assert dirt(four()).ratio == 1.0


def test_a_log_without_sealed_segments_is_not_worth_cleaning() -> None:
    assert not dirt([]).is_worth_cleaning(0.0)


def test_what_lies_below_the_last_round_is_clean() -> None:
    found = dirt(four(), cleaned_to=30)
    assert found == CleanableStats(30, 40, 300, 100, False)
    assert not found.is_worth_cleaning(0.25)
    assert found.is_worth_cleaning(0.24)


def test_a_segment_that_a_round_left_half_way_is_still_dirty() -> None:
    assert dirt(four(), cleaned_to=25) == CleanableStats(25, 40, 200, 200, False)


def test_a_fully_clean_log_has_no_dirt() -> None:
    assert not dirt(four(), cleaned_to=40).is_worth_cleaning(0.0)


def test_a_checkpoint_that_does_not_fit_the_log_is_not_believed() -> None:
    assert dirt(four(), cleaned_to=41).first_dirty_offset == 0
    assert dirt(four()[1:], active_base_offset=40, log_start_offset=12, cleaned_to=5) == CleanableStats(
        12, 40, 0, 300, False
    )


def test_a_segment_that_reaches_past_the_stable_offset_is_not_cleaned() -> None:
    assert dirt(four(), stable_offset=39) == CleanableStats(0, 30, 0, 300, False)
    assert dirt(four(), stable_offset=5, cleaned_to=0).dirty_bytes == 0


def test_records_younger_than_the_least_lag_stay_untouched() -> None:
    config = replace(COMPACT, min_compaction_lag_ms=HOUR)
    segments = four()
    for segment in segments[:2]:
        segment.max_timestamp = NOW - 2 * HOUR
    segments[3].max_timestamp = NOW - 2 * HOUR
    assert dirt(segments, config) == CleanableStats(0, 20, 0, 200, False)


def test_a_log_with_records_older_than_the_greatest_lag_is_cleaned_whatever_its_ratio() -> None:
    config = replace(COMPACT, max_compaction_lag_ms=HOUR)
    segments = four()
    segments[3].size_bytes = 1
    segments[3].first_timestamp = NOW - HOUR - 1
    found = dirt(segments, config, cleaned_to=30)
    assert found.is_overdue
    assert found.is_worth_cleaning(0.99)
    segments[3].first_timestamp = NOW - HOUR
    assert not dirt(segments, config, cleaned_to=30).is_overdue
    segments[3].first_timestamp = -1
    assert not dirt(segments, config, cleaned_to=30).is_overdue
    segments[0].first_timestamp = NOW - 9 * HOUR
    assert not dirt(segments, config, cleaned_to=30).is_overdue


def test_the_clean_part_does_not_shrink_when_the_dirty_part_is_out_of_reach() -> None:
    assert dirt(four(), cleaned_to=20, stable_offset=15) == CleanableStats(20, 20, 200, 0, False)


def test_a_log_that_starts_inside_of_its_active_segment_has_nothing_to_clean() -> None:
    assert dirt(four(), log_start_offset=47) == CleanableStats(40, 40, 400, 0, False)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 120), max_size=12), st.integers(50, 200))
def test_groups_keep_the_order_and_only_a_single_segment_may_be_too_large(
    sizes: list[int], max_bytes: int
) -> None:
    segments = [Described(10 * at, size) for at, size in enumerate(sizes)]
    groups = list(group_segments(segments, 10 * len(sizes), max_bytes))
    assert [segment for group in groups for segment in group] == segments
    for group in groups:
        assert len(group) == 1 or sum(segment.size_bytes for segment in group) <= max_bytes
    for left, right in pairwise(groups):
        assert sum(segment.size_bytes for segment in left) + right[0].size_bytes > max_bytes


def test_a_group_spans_no_more_offsets_than_an_index_can_count() -> None:
    segments = [Described(0), Described(2**31 - 10), Described(2**31)]
    assert [len(group) for group in group_segments(segments, 2**31 + 5, 10**6)] == [2, 1]
    assert [len(group) for group in group_segments(segments[:2], 2**31 + 1, 10**6)] == [1, 1]
