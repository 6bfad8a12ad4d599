import pytest

from ottla.common.lag import Lag, first_unread, lag

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("committed", "first"),
    [(4, 4), (9, 9), (10, None), (12, None), (1, 3), (-1, 3)],
    ids=["in the middle", "the last one", "at the end", "beyond the end", "deleted by retention", "never"],
)
def test_the_first_unread_record_is_the_one_at_the_committed_offset_or_the_oldest_that_is_left(
    committed, first
):
    assert first_unread(committed, 3, 10) == first


def test_nothing_is_unread_in_an_empty_partition():
    assert first_unread(0, 0, 0) is None


def test_lag_counts_offsets_and_the_age_of_the_first_unread_record():
    assert lag(4, 10, NOW_MS - 2_500, NOW_MS) == Lag(6, 2.5)


def test_records_that_retention_deleted_still_count_as_unread():
    assert lag(1, 10, NOW_MS, NOW_MS).records == 9


def test_a_record_from_the_future_is_not_less_than_zero_seconds_old():
    assert lag(4, 10, NOW_MS + 60_000, NOW_MS) == Lag(6, 0.0)


@pytest.mark.parametrize("timestamp", [None, -1])
def test_a_record_without_a_timestamp_has_no_age(timestamp):
    assert lag(4, 10, timestamp, NOW_MS) == Lag(6, None)
