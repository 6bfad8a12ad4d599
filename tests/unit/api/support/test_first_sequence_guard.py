"""A producer that seems to begin in the middle: its true beginning may still arrive."""

from __future__ import annotations

import pytest

from ottla.api.support import first_sequence_guard
from ottla.api.support.first_sequence_guard import ABANDONED_MS, HOLD_MS, MAX_PRODUCERS, FirstSequenceGuard
from ottla.protocol.errors import NotLeaderOrFollower
from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.records import Record, encode_batch


class Bench:
    def __init__(self) -> None:
        self.now_ms = 0
        self._late = FirstSequenceGuard()

    def waits(self, sequence: int = 30, *, epoch: int = 0, producer_id: int = 7, index: int = 0) -> bool:
        record = Record(0, 0, None, b"v")
        batch = encode_batch([record], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        try:
            self._late.check("orders", index, decode_header(batch), self.now_ms)
        except NotLeaderOrFollower:
            return True
        return False


def test_a_batch_waits_for_those_before_it_and_is_the_beginning_if_none_comes() -> None:
    bench = Bench()
    assert bench.waits(30)
    bench.now_ms = HOLD_MS - 1
    assert bench.waits(30)
    assert bench.waits(60)
    bench.now_ms = HOLD_MS
    assert not bench.waits(30)


def test_every_producer_epoch_and_partition_waits_by_itself() -> None:
    bench = Bench()
    assert bench.waits()
    bench.now_ms = HOLD_MS
    assert bench.waits(producer_id=8)
    assert bench.waits(index=1)
    assert bench.waits(epoch=1)
    assert bench.waits(epoch=1)


def test_however_many_producers_return_at_once_all_of_them_get_through(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those who wait do not take each other's place, or none would ever be admitted."""
    monkeypatch.setattr(first_sequence_guard, "MAX_PRODUCERS", 10)
    bench, waiting = Bench(), set(range(35))
    while waiting and bench.now_ms < 10 * HOLD_MS:
        waiting -= {
            producer_id for producer_id in sorted(waiting) if not bench.waits(producer_id=producer_id)
        }
        assert len(bench._late._first) <= 10
        bench.now_ms += 100
    assert not waiting
    assert bench.now_ms <= 5 * HOLD_MS
    assert caplog.text.count("unknown producers start with a sequence number above 0") == 1


def test_one_that_never_comes_again_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_sequence_guard, "MAX_PRODUCERS", 10)
    bench = Bench()
    for producer_id in range(10):
        assert bench.waits(producer_id=producer_id)
    bench.now_ms = ABANDONED_MS - 1
    assert bench.waits(producer_id=100)
    bench.now_ms = ABANDONED_MS
    assert bench.waits(producer_id=100)
    bench.now_ms += HOLD_MS
    assert not bench.waits(producer_id=100)


def test_more_producers_are_remembered_than_a_broker_usually_has() -> None:
    bench = Bench()
    for producer_id in range(MAX_PRODUCERS + 10):
        assert bench.waits(producer_id=producer_id)
    bench.now_ms = HOLD_MS
    assert not any(bench.waits(producer_id=producer_id) for producer_id in range(0, MAX_PRODUCERS, 100))
