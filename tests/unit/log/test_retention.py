from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.log_config import LogConfig
from ottla.log.retention import ExpiredSegments, find_breaches

NOW = 1_700_000_000_000
HOUR = 3_600_000
KEEP_INTACT_BATCHES = LogConfig(retention_ms=-1, retention_bytes=-1)


@dataclass
class Described:
    """A segment as retention sees it."""

    base_offset: int
    size_bytes: int = 100
    max_timestamp: int = NOW
    modified: int = NOW

    def modified_ms(self) -> int:
        return self.modified


def breaches(segments: list[Described], config: LogConfig, **given: int) -> list[ExpiredSegments]:
    facts = {"log_start_offset": 0, "log_end_offset": 10 * len(segments), "now_ms": NOW} | given
    facts.setdefault("high_watermark", facts["log_end_offset"])
    return find_breaches(segments, config, **facts)  # type: ignore[arg-type]


def counts(segments: list[Described], config: LogConfig, **given: int) -> list[int]:
    return [breach.segment_count for breach in breaches(segments, config, **given)]


def aged(*ages_ms: int) -> list[Described]:
    return [Described(10 * number, max_timestamp=NOW - age) for number, age in enumerate(ages_ms)]


def test_segments_go_once_their_newest_record_is_older_than_retention_ms() -> None:
    config = replace(KEEP_INTACT_BATCHES, retention_ms=HOUR)
    assert breaches(aged(3 * HOUR, HOUR + 1, HOUR, 0), config) == [ExpiredSegments(2, "retention.ms=3600000")]


def test_an_old_segment_behind_a_young_one_stays() -> None:
    assert counts(aged(0, 9 * HOUR, 0), replace(KEEP_INTACT_BATCHES, retention_ms=HOUR)) == []


def test_records_without_timestamps_are_as_old_as_their_file() -> None:
    segments = [Described(0, max_timestamp=-1, modified=NOW - 2 * HOUR), Described(10)]
    assert counts(segments, replace(KEEP_INTACT_BATCHES, retention_ms=HOUR)) == [1]
    segments[0].modified = NOW
    assert counts(segments, replace(KEEP_INTACT_BATCHES, retention_ms=HOUR)) == []


def test_a_segment_goes_only_if_the_rest_still_has_retention_bytes() -> None:
    segments = [Described(10 * number) for number in range(4)]
    assert counts(segments, replace(KEEP_INTACT_BATCHES, retention_bytes=199)) == [2]
    assert counts(segments, replace(KEEP_INTACT_BATCHES, retention_bytes=201)) == [1]
    assert counts(segments, replace(KEEP_INTACT_BATCHES, retention_bytes=301)) == []
    assert counts(segments, replace(KEEP_INTACT_BATCHES, retention_bytes=5000)) == []


def test_the_active_segment_goes_too_when_it_is_old_enough_but_not_when_it_is_empty() -> None:
    config = replace(KEEP_INTACT_BATCHES, retention_ms=HOUR)
    segments = aged(2 * HOUR, 2 * HOUR)
    assert counts(segments, config) == [2]
    segments[-1].size_bytes = 0
    assert counts(segments, config) == [1]
    assert counts(segments[-1:], config, log_end_offset=10, log_start_offset=10) == []


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    config = replace(KEEP_INTACT_BATCHES, retention_ms=HOUR)
    segments = aged(2 * HOUR, 2 * HOUR, 2 * HOUR)
    assert counts(segments, config, high_watermark=30) == [3]
    assert counts(segments, config, high_watermark=29) == [2]
    assert counts(segments, config, high_watermark=10) == [1]
    assert counts(segments, config, high_watermark=9) == []


def test_segments_below_the_log_start_go_under_every_policy() -> None:
    segments = aged(9 * HOUR, 9 * HOUR, 9 * HOUR)
    compacted = LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=HOUR, retention_bytes=0)
    assert counts(segments, compacted, log_start_offset=19) == [1]
    assert counts(segments, compacted, log_start_offset=20) == [2]
    assert counts(segments, compacted, log_start_offset=30) == [2]


def test_the_rules_apply_one_after_the_other_and_say_why() -> None:
    both = LogConfig(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=HOUR, retention_bytes=350)
    segments = aged(5 * HOUR, 5 * HOUR, 5 * HOUR, 0, 0)
    assert breaches(segments, both, log_start_offset=10) == [
        ExpiredSegments(1, "below the log start offset 10"),
        ExpiredSegments(2, "retention.ms=3600000"),
    ]
    assert breaches(segments, replace(both, retention_bytes=250), log_start_offset=10) == [
        ExpiredSegments(1, "below the log start offset 10"),
        ExpiredSegments(1, "retention.bytes=250"),
        ExpiredSegments(1, "retention.ms=3600000"),
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6),
    st.integers(-1, 6),
    st.integers(-1, 20),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_what_stays_satisfies_every_rule_and_what_goes_broke_one(
    shapes: list[tuple[int, int]], retention_ms: int, retention_bytes: int, start: int, watermark: int
) -> None:
    segments = [Described(10 * at, size, NOW - age) for at, (size, age) in enumerate(shapes)]
    end = 10 * len(segments)
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    watermark = min(watermark, end)
    found = breaches(segments, config, log_start_offset=start, high_watermark=watermark)
    gone = sum(breach.segment_count for breach in found)
    assert all(segment.base_offset + 10 <= watermark for segment in segments[:gone])
    left = segments[gone:]
    if retention_bytes >= 0 and gone:
        kept_bytes = sum(segment.size_bytes for segment in left)
        by_size = [breach for breach in found if breach.reason.startswith("retention.bytes")]
        others_gone = gone - sum(breach.segment_count for breach in by_size)
        assert not by_size or others_gone or kept_bytes >= retention_bytes
    if left and left[0].base_offset + 10 <= watermark and left[0].size_bytes:
        oldest, excess = left[0], sum(segment.size_bytes for segment in left) - retention_bytes
        assert not (0 <= retention_ms < NOW - oldest.max_timestamp)
        assert gone or retention_bytes < 0 or excess < oldest.size_bytes
