"""Partitions that are being moved get their share of the network, and no more."""

import pytest

from ottla.common.clock import ManualClock
from ottla.common.units import MAX_LONG
from ottla.replication.throttle import Rate, includes_replica


def test_what_was_taken_has_to_be_earned_again() -> None:
    clock = ManualClock()
    rate = Rate(lambda: 1_000, clock)
    spent = [rate.is_exhausted]
    rate.record(3_000)
    for pause_ms in (0, 1_000, 1_000, 1):  # 3,000 less the 1,000 that may be taken at once
        clock.advance(pause_ms)
        spent.append(rate.is_exhausted)
    assert spent == [False, True, True, True, False]


def test_a_long_pause_earns_one_burst_only() -> None:
    clock = ManualClock()
    rate = Rate(lambda: 1_000, clock)
    clock.advance(3_600_000)
    rate.record(1_000)
    assert rate.is_exhausted


def test_without_a_limit_nothing_is_counted() -> None:
    rate = Rate(lambda: MAX_LONG, ManualClock())
    rate.record(1 << 60)
    assert not rate.is_exhausted


@pytest.mark.parametrize(
    ("throttled", "is_named"),
    [((), False), (("*",), True), (("0:1", "3:2"), True), (("3:1",), False), (("0:2",), False)],
)
def test_a_topic_names_the_replicas_that_are_throttled(throttled: tuple[str, ...], is_named: bool) -> None:
    assert includes_replica(throttled, partition=3, node_id=2) == is_named
