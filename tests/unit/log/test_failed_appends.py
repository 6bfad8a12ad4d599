"""A disk that is full for one batch: those behind it are told the same, not that they are out of order."""

from __future__ import annotations

import pytest
from tests.unit.log.bench import LogBench, append, idempotent, make_batch, read_batches, read_values

from ottla.log.log import Log
from ottla.log.producers.failed_appends import MAX_PRODUCERS, WAIT_MS
from ottla.protocol.errors import KafkaStorageError, OutOfOrderSequenceNumber


def fill(bench: LogBench) -> None:
    bench.disk.capacity_bytes = bench.disk.used_bytes()


def refuse(bench: LogBench, batch: bytearray) -> None:
    with pytest.raises(KafkaStorageError):
        append(bench.log, batch)


def copy(leader: Log, follower: Log) -> None:
    """Copy what the follower lacks."""
    start = follower.log_end_offset
    follower.append_as_follower(
        memoryview(b"".join(bytes(b) for h, b in read_batches(leader) if h.base_offset >= start))
    )


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


def test_a_producer_that_gave_up_the_batch_continues_with_its_next_epoch() -> None:
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


@pytest.mark.parametrize("known", [True, False], ids=["known-producer", "new-producer"])
def test_a_batch_that_comes_from_the_next_leader_is_not_waited_for_any_more(known: bool) -> None:
    """The batch is sent again to another leader, copied from there, and then this broker leads again."""
    leader, bench = LogBench(), LogBench()
    first = 1 if known else 0
    if known:
        append(leader.log, idempotent("a", sequence=0))
        copy(leader.log, bench.log)
    fill(bench)
    refuse(bench, idempotent("b", sequence=first))
    bench.disk.heal()
    for number, value in enumerate("bcd"):
        append(leader.log, idempotent(value, sequence=first + number), leader_epoch=1)
    copy(leader.log, bench.log)
    append(bench.log, idempotent("e", sequence=first + 3), leader_epoch=2)
    assert "".join(read_values(bench.log).values()).endswith("bcde")
    assert not bench.log._failed_appends._by_producer


def test_a_batch_that_never_comes_again_is_waited_for_only_so_long(caplog: pytest.LogCaptureFixture) -> None:
    bench = LogBench()
    append(bench.log, idempotent("a", sequence=0))
    fill(bench)
    refuse(bench, idempotent("b", sequence=1))
    bench.disk.heal()
    bench.clock.advance(WAIT_MS - 1)
    refuse(bench, idempotent("c", sequence=2))
    bench.clock.advance(1)
    with pytest.raises(OutOfOrderSequenceNumber):
        append(bench.log, idempotent("c", sequence=2))
    assert "producer 7" in caplog.text
    assert "did not resend its failed batch" in caplog.text


def test_beyond_the_bound_producers_whose_refused_batch_is_not_known_wait_as_well() -> None:
    bench = LogBench()
    append(bench.log, idempotent("a", sequence=0, producer_id=1_000_000))
    fill(bench)
    for producer_id in range(MAX_PRODUCERS):
        refuse(bench, idempotent("a", sequence=0, producer_id=producer_id))
    refuse(bench, idempotent("b", sequence=1, producer_id=1_000_000))
    refuse(bench, idempotent("a", sequence=0, producer_id=1_000_001))
    bench.disk.heal()
    assert len(bench.log._failed_appends._by_producer) <= MAX_PRODUCERS
    refuse(bench, idempotent("b", sequence=1, producer_id=5))
    refuse(bench, idempotent("c", sequence=2, producer_id=1_000_000))
    refuse(bench, idempotent("b", sequence=1, producer_id=1_000_001))
    append(bench.log, idempotent("b", sequence=1, producer_id=1_000_000))
    append(bench.log, idempotent("a", sequence=0, producer_id=1_000_001))
    bench.clock.advance(WAIT_MS)
    with pytest.raises(OutOfOrderSequenceNumber):
        append(bench.log, idempotent("d", sequence=3, producer_id=1_000_000))


def test_every_log_remembers_its_own() -> None:
    bench = LogBench()
    fill(bench)
    refuse(bench, idempotent("a", sequence=0))
    assert not LogBench().log._failed_appends._by_producer
