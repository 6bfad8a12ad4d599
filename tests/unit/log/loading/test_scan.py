from __future__ import annotations

from random import Random

import pytest

from ottla.log.disk import OpenFile
from ottla.log.loading.scan import BadRange, ScanBounds, is_torn_append, scan
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.simulation.disk import SimDisk


def batch_at(offset: int, value: bytes = b"v") -> bytes:
    return bytes(encode_batch([Record(offset, 0, None, value)], base_offset=offset))


def file_of(*parts: bytes) -> tuple[OpenFile, int]:
    disk = SimDisk()
    disk.write_file("/a.log", b"".join(parts), sync=False)
    return disk.open_read("/a.log"), sum(map(len, parts))


@pytest.mark.parametrize("first", [0, 7, (1 << 32) - 2, 1 << 40])
def test_good_batches_are_good_wherever_their_offsets_are(first: int) -> None:
    file, size = file_of(*(batch_at(first + number) for number in range(5)))
    assert scan(file, 0, size, ScanBounds(first)) == ([], first + 5)


@pytest.mark.parametrize("garbage", [1, 60, 61, 5000, (1 << 20) - 30, 1 << 20, 3_000_000])
@pytest.mark.parametrize("kind", ["random", "zeros", "twos"])
@pytest.mark.parametrize("first", [0, (1 << 32) - 1])
def test_the_next_good_batch_is_found_behind_any_garbage(garbage: int, kind: str, first: int) -> None:
    if kind == "twos":
        garbage = min(garbage, 50_000)
    junk = {"random": Random(garbage).randbytes(garbage), "zeros": bytes(garbage), "twos": b"\x02" * garbage}
    good = batch_at(first)
    file, size = file_of(good, junk[kind], batch_at(first + 1), batch_at(first + 2))
    found = scan(file, 0, size, ScanBounds(first))
    assert found.next_offset == first + 3
    assert found.bad == [BadRange(len(good), len(good) + garbage, first + 1, first + 1)]


def test_everything_after_the_last_good_batch_is_one_bad_range() -> None:
    good = batch_at(0)
    file, size = file_of(good, b"\x02" * 300, good[:40])
    assert scan(file, 0, size, ScanBounds(0)) == ([BadRange(len(good), size, 1, -1)], 1)


def test_a_batch_whose_offset_goes_back_is_bad_and_so_is_one_that_leaps_ahead_of_the_next() -> None:
    parts = [batch_at(0), batch_at(1), batch_at(0), batch_at(2), batch_at(77), batch_at(3)]
    file, size = file_of(*parts)
    found = scan(file, 0, size, ScanBounds(0))
    assert [(bad.expected_offset, bad.resumed_offset) for bad in found.bad] == [(2, 2), (3, 3)]
    assert found.next_offset == 4


def test_a_batch_that_reaches_into_the_next_segment_is_bad() -> None:
    file, size = file_of(batch_at(0), batch_at(9), batch_at(10))
    assert [bad.expected_offset for bad in scan(file, 0, size, ScanBounds(0, end_offset=10)).bad] == [10]


def test_gaps_in_the_offsets_are_no_damage() -> None:
    file, size = file_of(batch_at(0), batch_at(10), batch_at(11), batch_at(500))
    assert scan(file, 0, size, ScanBounds(0)) == ([], 501)


def test_checksums_are_believed_below_what_was_fsynced() -> None:
    damaged = bytearray(batch_at(0))
    damaged[-1] ^= 1
    file, size = file_of(bytes(damaged), batch_at(1))
    assert scan(file, 0, size, ScanBounds(0, trusted_below=1)).bad == []
    assert len(scan(file, 0, size, ScanBounds(0)).bad) == 1


@pytest.mark.parametrize(
    ("tail", "torn"),
    [(b"x", True), (bytes(500), True), (batch_at(0)[:-1], True), (batch_at(0), False), (b"y" * 500, False)],
)
def test_half_an_append_is_distinguished_from_damage(tail: bytes, torn: bool) -> None:
    file, size = file_of(tail)
    assert is_torn_append(file, 0, size) is torn
