"""What is counted of a topic."""

from __future__ import annotations

import random

import pytest

from ottla.console.messages.statistics import DistinctKeys, Sizes


def test_percentiles_are_near_the_true_ones() -> None:
    chosen = random.Random(7)
    given = [int(chosen.lognormvariate(6, 1.5)) for _ in range(20_000)]
    sizes = Sizes()
    for at in range(0, len(given), 500):
        sizes.add(given[at : at + 500])
    found, ordered = sizes.as_json(), sorted(given)
    assert (found["count"], found["bytes"]) == (len(given), sum(given))
    assert (found["min"], found["max"]) == (ordered[0], ordered[-1])
    for percent in (50, 95, 99):
        assert found[f"p{percent}"] == pytest.approx(ordered[len(given) * percent // 100 - 1], rel=0.04)
    assert len(sizes.counts) < 1_000


def test_sizes_of_nothing() -> None:
    assert Sizes().as_json() == {"count": 0, "bytes": 0}


@pytest.mark.parametrize("count", [0, 1, 100, 5_000, 200_000])
def test_different_keys_are_estimated(count: int) -> None:
    keys = DistinctKeys()
    for _ in range(2):
        keys.add([b"key-%d" % each for each in range(count)])
    assert keys.estimate() == pytest.approx(count, rel=0.08)
