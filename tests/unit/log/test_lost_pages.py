"""A power failure in the middle of a group commit: what producers send again is taken in, once."""

from __future__ import annotations

import pytest
from tests.unit.log.bench import LogBench, append, idempotent, read_values

from ottla.log.file_names import LOG
from ottla.log.log_config import LONG_MAX
from ottla.protocol.errors import OutOfOrderSequenceNumber
from ottla.protocol.records.batch import check_batch

SEEDS = range(60)
FLUSHED, SENT = 2, 8


def large(sequence: int) -> memoryview:
    """Return a batch of more than one page."""
    return idempotent(f"{sequence}:".ljust(5000, "x"), sequence=sequence)


def group_commit_under_way(**config: object) -> LogBench:
    """Two batches are flushed, and acknowledged; six more are written, and a segment was rolled meanwhile."""
    bench = LogBench(**({"segment_bytes": 24_000} | config))
    for sequence in range(SENT):
        append(bench.log, large(sequence))
        if sequence + 1 == FLUSHED:
            bench.flush()
    assert len(bench.log.segments) == 2
    return bench


def sequences(bench: LogBench) -> list[int]:
    return [int(value.split(":")[0]) for value in read_values(bench.log).values()]


@pytest.mark.parametrize("seed", SEEDS)
def test_with_every_batch_flushed_before_its_ack_the_log_ends_where_a_page_was_lost(seed: int) -> None:
    bench = group_commit_under_way(flush_messages=1)
    bench.cut_power(seed)
    left = sequences(bench)
    assert left == list(range(len(left)))
    assert len(left) >= FLUSHED
    for sequence in range(len(left), SENT):
        assert not append(bench.log, large(sequence)).is_duplicate
    assert sequences(bench) == list(range(SENT))
    bench.kill()
    assert sequences(bench) == list(range(SENT))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("flush_messages", [2, LONG_MAX])
def test_a_lost_batch_that_is_sent_again_is_never_taken_for_one_that_is_there(
    seed: int, flush_messages: int
) -> None:
    bench = group_commit_under_way(flush_messages=flush_messages)
    bench.cut_power(seed)
    for sequence in set(range(SENT)) - set(sequences(bench)):
        try:
            assert bench.log.producers.check(check_batch(large(sequence))) is None
        except OutOfOrderSequenceNumber:
            pass  # a later one, which may have been acknowledged, is there


@pytest.mark.parametrize("flush_messages", [2, LONG_MAX])
def test_batches_acknowledged_before_they_are_flushed_stay_whatever_is_lost_before_them(
    flush_messages: int,
) -> None:
    bench = group_commit_under_way(flush_messages=flush_messages)
    lose_a_page(bench)
    assert sequences(bench) == [0, 1, 4, 5, 6, 7]
    assert bench.log.producers.encode() == replayed(bench)


def lose_a_page(bench: LogBench) -> None:
    bench.contents(bench.names(LOG)[0])[12288:16384] = bytes(4096)
    bench.kill()


def replayed(bench: LogBench) -> bytes:
    """Return the producers' state as the batches alone give it."""
    for name in bench.names(".snapshot"):
        bench.remove(name)
    return bench.kill().producers.encode()


def test_what_came_after_a_lost_page_is_kept_in_quarantine_and_its_offsets_are_used_again() -> None:
    bench = group_commit_under_way(flush_messages=1)
    first, second = bench.names(LOG)
    position = 2 * len(large(0))
    cut_off = len(bench.contents(first)) - position
    after = bytes(bench.contents(second))
    lose_a_page(bench)
    assert bench.log.log_end_offset == FLUSHED
    assert bench.log.holes == ()
    assert len(bench.contents(f"{first}.{position}.quarantine")) == cut_off
    assert bytes(bench.contents(f"{second}.0.quarantine")) == after
    assert append(bench.log, large(2)).base_offset == 2


def test_a_second_power_failure_leaves_the_first_ones_quarantine_alone() -> None:
    bench = group_commit_under_way(flush_messages=1)
    for _ in range(2):
        lose_a_page(bench)
        for sequence in range(FLUSHED, SENT):
            append(bench.log, large(sequence))
    assert len(bench.names(".quarantine")) == 4


def test_a_flipped_bit_costs_its_batch_and_no_other_even_with_every_batch_flushed() -> None:
    """All of them may have been acknowledged: the recovery point is checkpointed only now and then."""
    bench = group_commit_under_way(flush_messages=1)
    bench.contents(bench.names(LOG)[0])[12_000] ^= 1
    bench.kill()
    assert sequences(bench) == [0, 1, 3, 4, 5, 6, 7]
    assert bench.log.holes == ((2, 3),)


@pytest.mark.parametrize(("policy", "left"), [("delete", [0, 1, 2]), ("compact", [0, 1, 2, 4, 5, 6, 7])])
def test_a_file_that_ends_early_is_a_lost_page_too_unless_compaction_leaves_such_gaps(
    policy: str, left: list[int]
) -> None:
    bench = group_commit_under_way(flush_messages=1, cleanup_policy=frozenset({policy}))
    del bench.contents(bench.names(LOG)[0])[3 * len(large(0)) :]
    bench.kill()
    assert sequences(bench) == left


def test_a_first_segment_that_lost_everything_ends_the_log_at_its_start() -> None:
    bench = LogBench(flush_messages=1)
    bench.fill(30)
    bench.contents(bench.names(LOG)[0]).clear()
    bench.kill()
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (0, 0)
    bench.fill(30)
    assert len(read_values(bench.log)) == 30
