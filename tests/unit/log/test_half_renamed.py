"""A rename that fails half-way through a step: the log goes on with what it had; so does the next start."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest
from tests.unit.log.bench import DIRECTORY, LogBench, append, make_batch, read_values

from ottla.log.file_names import CLEANED, SWAP
from ottla.log.segment import Segment
from ottla.protocol.errors import KafkaStorageError


class FailingRenames:
    """Lets the renames from number `first` on fail, `count` of them."""

    def __init__(self, bench: LogBench, first: int, count: int) -> None:
        self._rename: Callable[[str, str], None] = bench.disk.rename
        self._failing = range(first, first + count)
        self.made = 0
        bench.disk.rename = self  # type: ignore[method-assign]

    def __call__(self, old: str, new: str) -> None:
        self.made += 1
        if self.made - 1 in self._failing:
            raise OSError(errno.ENOSPC, "no room for the name", old)
        self._rename(old, new)


@pytest.fixture
def bench() -> LogBench:
    bench = LogBench()
    bench.fill(60)
    bench.flush()
    return bench


def copy_of(bench: LogBench, old: list[Segment]) -> Segment:
    """Return a compacted segment, without the first batch."""
    new = Segment.create(bench.storage, DIRECTORY, old[0].base_offset, bench.config, now_ms=0, suffix=CLEANED)
    batches = [(s, position, header) for s in old for position, header in s.headers(0)]
    for segment, position, header in batches[1:]:
        new.append(segment.open_file().read_at(position, header.size_bytes), header)
    new.seal()
    new.fsync()
    return new


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("first", range(7))
def test_segments_that_cannot_be_removed_can_still_be_read(bench: LogBench, first: int, count: int) -> None:
    values = read_values(bench.log)
    renames = FailingRenames(bench, first, count)
    with pytest.raises(KafkaStorageError):
        bench.log.remove_segments(bench.log.sealed[:2], "a test says so")
    left = {k: v for k, v in values.items() if k >= bench.log.log_start_offset}
    if bench.storage.offline_reason is None:
        assert read_values(bench.log) == left
        append(bench.log, make_batch("goes on"))
        left[60] = "goes on"
    else:
        assert count > 1, "one failure can be undone"
        staying = bench.log.segments[1].base_offset  # the next start finishes what was begun
        left = {k: v for k, v in values.items() if k >= staying}
    bench.disk.rename = renames._rename  # type: ignore[method-assign]
    assert read_values(bench.kill()) == left


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("first", range(12))
def test_half_a_swap_is_undone_or_stops_all_writing(bench: LogBench, first: int, count: int) -> None:
    values = read_values(bench.log)
    old = bench.log.sealed[:2]
    new = copy_of(bench, old)
    renames = FailingRenames(bench, first, count)
    with pytest.raises(KafkaStorageError):
        bench.log.replace_segments(old, [new])
    bench.disk.rename = renames._rename  # type: ignore[method-assign]
    if bench.storage.offline_reason is None:
        assert bench.names(SWAP) + bench.names(CLEANED) == []
        assert read_values(bench.log) == values
        append(bench.log, make_batch("goes on"))
        values[60] = "goes on"
    elif count == 1:
        assert read_values(bench.log) == values, "reads go on"
    found = read_values(bench.kill())
    assert found in (values, {k: v for k, v in values.items() if k})


@pytest.mark.parametrize("seed", range(12))
def test_a_power_failure_after_half_a_swap_leaves_the_old_or_the_new(bench: LogBench, seed: int) -> None:
    values = read_values(bench.log)
    old = bench.log.sealed[:2]
    new = copy_of(bench, old)
    renames = FailingRenames(bench, seed, 1)
    with pytest.raises(KafkaStorageError):
        bench.log.replace_segments(old, [new])
    bench.disk.rename = renames._rename  # type: ignore[method-assign]
    bench.disk.crash(Random(seed))
    found = read_values(bench.kill())
    assert found in (values, {k: v for k, v in values.items() if k})
