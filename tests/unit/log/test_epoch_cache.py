from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.epoch_cache import EpochCache


def test_the_file_has_kafkas_format() -> None:
    assert EpochCache([(0, 0), (3, 1742)]).encode() == b"0\n2\n0 0\n3 1742\n"
    assert EpochCache.decode(b"0\n2\n0 0\n3 1742\n").entries() == [(0, 0), (3, 1742)]
    assert EpochCache().encode() == b"0\n0\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1\n0\n",
        "0\n1\n",
        "0\n1\n1 2",
        "0\n1\n1\n",
        "0\n1\n-1 0\n",
        "0\n2\n2 0\n1 5\n",
        "0\n2\n1 5\n2 5\n",
    ],
)
def test_a_file_that_cannot_be_right_does_not_parse(text: str) -> None:
    with pytest.raises(ValueError):
        EpochCache.decode(text.encode())


def test_an_epoch_without_records_gives_way_to_the_next_at_the_same_offset() -> None:
    cache = EpochCache([(1, 0), (2, 10)])
    cache.assign(3, 10)
    assert cache.entries() == [(1, 0), (3, 10)]
    assert cache.latest_epoch == 3


def test_an_epoch_that_continues_changes_nothing() -> None:
    cache = EpochCache([(1, 0)])
    version = cache.version
    cache.assign(1, 50)
    cache.assign(-1, 60)
    assert (cache.entries(), cache.version) == ([(1, 0)], version)


def test_truncation_at_either_end() -> None:
    cache = EpochCache([(1, 0), (2, 10), (5, 20)])
    cache.truncate_from_end(20)
    assert cache.entries() == [(1, 0), (2, 10)]
    cache.truncate_from_start(10)
    assert cache.entries() == [(2, 10)]
    cache.truncate_from_start(15)
    assert cache.entries() == [(2, 15)]
    cache.clear()
    assert (cache.entries(), cache.latest_epoch) == ([], -1)


def test_the_log_may_start_later_than_all_epochs_that_are_known() -> None:
    cache = EpochCache([(4, 30)])
    cache.truncate_from_start(10)
    assert cache.entries() == [(4, 30)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), max_size=15), st.integers(0, 60))
def test_whatever_is_assigned_both_columns_ascend(assigned: list[tuple[int, int]], end: int) -> None:
    cache = EpochCache()
    for epoch, start in assigned:
        cache.assign(epoch, start)
    entries = cache.entries()
    assert entries == sorted(entries)
    assert len({epoch for epoch, _ in entries}) == len({start for _, start in entries}) == len(entries)
    assert EpochCache.decode(cache.encode()).entries() == entries
    for offset in range(60):
        known = [epoch for epoch, start in entries if start <= offset]
        assert cache.epoch_for_offset(offset) == (known[-1] if known else -1)
    for epoch in range(22):
        found, ends = cache.end_offset_for(epoch, 99)
        later = [start for e, start in entries if e > epoch]
        if later:
            assert ends == later[0]
            assert found <= epoch
        elif entries and epoch == entries[-1][0]:
            assert (found, ends) == (epoch, 99)
        else:
            assert (found, ends) == (-1, -1)
    cache.truncate_from_end(end)
    assert cache.entries() == [(epoch, start) for epoch, start in entries if start < end]
