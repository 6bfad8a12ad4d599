"""A disk that is full for one batch: those behind it are told the same, not that they are out of order."""

from __future__ import annotations

import pytest
from tests.unit.log.bench import LogBench, append, idempotent, make_batch, read_values

from ottla.log.refused_batches import MOST_PRODUCERS
from ottla.protocol.errors import KafkaStorageError, OutOfOrderSequenceNumber


def fill(bench: LogBench) -> None:
    bench.disk.capacity_bytes = bench.disk.used_bytes()


def refuse(bench: LogBench, batch: bytearray) -> None:
    with pytest.raises(KafkaStorageError):
        append(bench.log, batch)


@pytest.mark.parametrize("known", [True, False], ids=["known-producer", "new-producer"])
def test_batches_behind_one_that_failed_wait_for_it_even_when_there_is_room_again(known: bool) -> None:
    bench = LogBench()
    first = 1 if known else 0
    if known:
        append(bench.log, idempotent("a", sequence=0))
    fill(bench)
    refuse(bench, idempotent("b", sequence=first))
    refuse(bench, idempotent("c", sequence=first + 1))
    bench.disk.heal()
    refuse(bench, idempotent("c", sequence=first + 1))
    append(bench.log, idempotent("b", sequence=first))
    append(bench.log, idempotent("c", sequence=first + 1))
    assert list(read_values(bench.log).values())[first:] == ["b", "c"]
    with pytest.raises(OutOfOrderSequenceNumber):
        append(bench.log, idempotent("e", sequence=first + 3))


def test_a_repeated_batch_is_recognised_meanwhile() -> None:
    bench = LogBench()
    append(bench.log, idempotent("a", sequence=0))
    fill(bench)
    refuse(bench, idempotent("b", sequence=1))
    assert append(bench.log, idempotent("a", sequence=0)).is_duplicate


def test_a_producer_that_gave_up_the_batch_goes_on_with_its_next_epoch() -> None:
    bench = LogBench()
    append(bench.log, idempotent("a", sequence=0))
    fill(bench)
    refuse(bench, idempotent("b", sequence=1))
    bench.disk.heal()
    append(bench.log, idempotent("c", sequence=0, epoch=1))
    append(bench.log, idempotent("d", sequence=1, epoch=1))
    assert list(read_values(bench.log).values()) == ["a", "c", "d"]


def test_other_producers_are_not_held_back() -> None:
    bench = LogBench()
    fill(bench)
    refuse(bench, idempotent("a", sequence=0))
    refuse(bench, make_batch("plain"))
    bench.disk.heal()
    append(bench.log, idempotent("x", sequence=0, producer_id=9))
    append(bench.log, make_batch("plain"))
    refuse(bench, idempotent("b", sequence=1))


def test_what_is_remembered_is_bounded() -> None:
    bench = LogBench()
    fill(bench)
    for producer_id in range(MOST_PRODUCERS + 10):
        refuse(bench, idempotent("a", sequence=0, producer_id=producer_id))
    assert len(bench.log._refused._first) <= MOST_PRODUCERS
    assert not LogBench().log._refused, "every log has its own"
