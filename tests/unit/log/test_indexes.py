from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.file_pool import FilePool, PooledFile
from ottla.log.indexes import BLOCK_BYTES, CorruptIndex, OffsetIndex, TimeIndex
from ottla.testing.simulation.disk import SimDisk

BASE = 1000


def new_file() -> tuple[SimDisk, PooledFile]:
    disk = SimDisk()
    file = PooledFile(FilePool(disk), "/x.index")
    file.create()
    return disk, file


def test_entries_have_kafkas_layout() -> None:
    disk, file = new_file()
    offsets = OffsetIndex(file, BASE)
    offsets.append(1005, 4096)
    offsets.append(1017, 9000)
    offsets.write_pending()
    assert disk.contents("/x.index") == pack(">IIII", 5, 4096, 17, 9000)
    disk, file = new_file()
    times = TimeIndex(file, BASE)
    times.append_if_later(123456, 1005)
    times.append_if_later(123456, 1009)
    times.append_if_later(123457, 1017)
    times.write_pending()
    assert disk.contents("/x.index") == pack(">qIqI", 123456, 5, 123457, 17)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(62, 900)), max_size=60),
    st.integers(0, 60),
    st.integers(-5, 600),
)
def test_lookups_find_the_last_entry_at_or_below(
    steps: list[tuple[int, int]], written: int, target: int
) -> None:
    _, file = new_file()
    index, entries = OffsetIndex(file, BASE), []
    offset, position = BASE, 0
    for number, (by_offset, by_position) in enumerate(steps):
        offset, position = offset + by_offset, position + by_position
        index.append(offset, position)
        entries.append((offset, position))
        if number == written:
            index.write_pending()
    assert list(index) == [(o - BASE, p) for o, p in entries]
    below = [entry for entry in entries if entry[0] <= BASE + target]
    assert index.lookup(BASE + target) == (below[-1] if below else None)
    before = [entry for entry in entries if entry[1] <= target * 20]
    assert index.lookup_position(target * 20) == (before[-1] if before else None)
    assert index.last() == (entries[-1] if entries else None)
    index.truncate_to(BASE + target)
    assert [o + BASE for o, _ in index] == [o for o, _ in entries if o < BASE + target]
    index.append(99999, 99999)
    assert index.last() == (99999, 99999)


def test_a_large_index_keeps_little_in_memory_and_still_finds_everything() -> None:
    disk, file = new_file()
    index = OffsetIndex(file, BASE)
    for number in range(5000):
        index.append(BASE + 2 * number, 100 * number)
    assert len(disk.contents("/x.index")) >= 5000 * 8 - BLOCK_BYTES
    assert len(index) == 5000
    for number in range(0, 5000, 37):
        assert index.lookup(BASE + 2 * number + 1) == (BASE + 2 * number, 100 * number)
        assert index.entry(number) == (2 * number, 100 * number)
    again = OffsetIndex.open(file, BASE)
    assert again.last() == index.last() or index.has_pending


def test_a_full_disk_does_not_lose_entries() -> None:
    disk, file = new_file()
    index = OffsetIndex(file, BASE)
    disk.capacity_bytes = 100
    for number in range(1500):
        index.append(BASE + number, number)
    with pytest.raises(OSError, match="No space"):
        index.write_pending()
    assert [offset for offset, _ in index] == list(range(1500))
    disk.heal()
    index.write_pending()
    assert [offset for offset, _ in OffsetIndex.open(file, BASE)] == list(range(1500))


def test_missing_files_and_half_entries_are_corrupt() -> None:
    disk, file = new_file()
    disk.contents("/x.index").extend(b"1234567")
    with pytest.raises(CorruptIndex, match="7 bytes"):
        OffsetIndex.open(file, BASE)
    with pytest.raises(CorruptIndex, match="missing"):
        TimeIndex.open(PooledFile(FilePool(disk), "/y.timeindex"), BASE)


def test_an_index_that_shrinks_behind_our_back_is_corrupt_not_wrong() -> None:
    disk, file = new_file()
    index = OffsetIndex(file, BASE)
    for number in range(3000):
        index.append(BASE + number, number)
    index.write_pending()
    disk.contents("/x.index").clear()
    with pytest.raises(CorruptIndex):
        index.lookup(BASE + 500)


def test_an_index_that_continues_after_reopening_remembers_its_last_timestamp() -> None:
    _, file = new_file()
    times = TimeIndex(file, BASE)
    times.append_if_later(50, 1001)
    times.write_pending()
    again = TimeIndex.open(file, BASE)
    again.append_if_later(50, 1002)
    again.append_if_later(51, 1003)
    assert list(again) == [(50, 1), (51, 3)]
    again.truncate_to(1003)
    again.append_if_later(51, 1009)
    assert list(again) == [(50, 1), (51, 9)]
    assert again.lookup(50) == (50, 1001)
    assert again.lookup(49) is None
