"""A producer that seems to begin in the middle: its true beginning may still arrive."""

from __future__ import annotations

from ottla.api.late_beginnings import HELD_BACK_MS, MOST, LateBeginnings
from ottla.protocol.errors import NotLeaderOrFollower
from ottla.protocol.record_batch import decode_header
from ottla.protocol.records import Record, encode_batch


class Bench:
    def __init__(self) -> None:
        self.now_ms = 0
        self._late = LateBeginnings()

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
    bench.now_ms = HELD_BACK_MS - 1
    assert bench.waits(30)
    assert bench.waits(60)
    bench.now_ms = HELD_BACK_MS
    assert not bench.waits(30)


def test_every_producer_epoch_and_partition_waits_by_itself() -> None:
    bench = Bench()
    assert bench.waits()
    bench.now_ms = HELD_BACK_MS
    assert bench.waits(producer_id=8)
    assert bench.waits(index=1)
    assert bench.waits(epoch=1)
    assert bench.waits(epoch=1)


def test_what_is_remembered_is_bounded() -> None:
    bench = Bench()
    for producer_id in range(MOST + 10):
        assert bench.waits(producer_id=producer_id)
    bench.now_ms = HELD_BACK_MS
    assert not bench.waits(producer_id=10)
    assert bench.waits(producer_id=9), "the oldest are forgotten, and wait anew"
