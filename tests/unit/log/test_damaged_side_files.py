"""Recovery of damaged indexes, snapshots and checkpoints: all of it can be had from the log."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.log.bench import LogBench, append, filled_bench, idempotent, indexes_of, read_values

from ottla.log.file_names import OFFSET_INDEX, TIME_INDEX, file_name

Values = dict[int, str]


@pytest.fixture
def bench() -> LogBench:
    return filled_bench()


@pytest.fixture
def values(bench: LogBench) -> Values:
    return read_values(bench.log)


@pytest.mark.parametrize("kind", [OFFSET_INDEX, TIME_INDEX])
@pytest.mark.parametrize("segment", [0, -1])
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "empty", "half an entry", "flipped", "garbage", "too long"])
def test_a_damaged_index_is_rebuilt(
    bench: LogBench, values: Values, kind: str, segment: int, is_clean: bool, damage: str
) -> None:
    bench.log.close(clean=True)
    intact = indexes_of(bench)
    name = file_name(bench.log.segments[segment].base_offset, kind)
    data = bench.contents(name)
    match damage:
        case "missing":
            bench.remove(name)
        case "empty":
            data.clear()
        case "half an entry":
            data.extend(b"\0\0\0")
        case "flipped":
            data[-1] ^= 0x10
        case "garbage":
            data[:] = Random(2).randbytes(len(data))
        case "too long":
            data.extend(bytes(data[-12:] if kind == TIME_INDEX else data[-8:]))
    log = bench.reopen(is_clean=is_clean)
    assert read_values(log) == values
    for offset in range(80):
        assert log.read(offset, 1, 80).next_offset == offset - offset % 2 + 2
        assert log.offset_for_time(log.max_timestamp_offset().timestamp).offset == 78  # type: ignore[union-attr]
    log.close(clean=True)
    if damage in ("missing", "half an entry") or not is_clean:
        assert indexes_of(bench) == intact


@pytest.mark.parametrize("damage", ["flipped", "torn", "empty", "missing"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_log(damage: str, is_clean: bool) -> None:
    bench = LogBench()
    for number in range(30):
        append(bench.log, idempotent("v", sequence=number))
    bench.log.close(clean=True)
    intact = bench.log.producers.encode()
    name = bench.names(".snapshot")[-1]
    if damage == "missing":
        bench.remove(name)
    else:
        data = bench.contents(name)
        data[:] = {"flipped": data[:20] + b"\x7f" + data[21:], "torn": data[:30], "empty": b""}[damage]
    log = bench.reopen(is_clean=is_clean)
    assert log.producers.encode() == intact
    assert append(log, idempotent("v", sequence=28)).is_duplicate
    assert bench.names(".corrupt") == ([] if damage == "missing" else [name + ".corrupt"])


@pytest.mark.parametrize(
    "damage", [b"", b"0\n", b"0\n2\n0 0\n", b"\xff\xfe", b"0\n1\n5 x\n", b"0\n2\n3 0\n1 7\n"]
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_epoch_checkpoint_is_set_aside_and_rebuilt_from_the_log(
    damage: bytes, is_clean: bool
) -> None:
    bench = LogBench()
    bench.fill(10, leader_epoch=2)
    bench.fill(10, leader_epoch=5)
    bench.log.close(clean=True)
    bench.contents("leader-epoch-checkpoint")[:] = damage
    log = bench.reopen(is_clean=is_clean)
    assert log.epochs.entries() == [(2, 0), (5, 10)]
    assert bench.contents("leader-epoch-checkpoint.corrupt") == damage


def test_a_damaged_partition_metadata_file_is_set_aside(bench: LogBench) -> None:
    bench.log.close(clean=True)
    bench.contents("partition.metadata")[:] = b"version: 0\ntopic_id: ?"
    assert bench.reopen(is_clean=True).topic_id is None
    assert bench.names(".corrupt") == ["partition.metadata.corrupt"]
