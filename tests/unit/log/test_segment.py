from __future__ import annotations

import pytest

from ottla.log.batch_walk import walk_batches, walk_headers
from ottla.log.file_names import LOG
from ottla.log.log_config import LogConfig
from ottla.log.segment import Segment, SegmentFiles
from ottla.log.storage import Storage
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.records import Record, encode_batch
from ottla.testing.simulation.disk import SimDisk

DIRECTORY = "/d/t-0"
CONFIG = LogConfig(index_interval_bytes=300)


@pytest.fixture
def storage() -> Storage:
    disk = SimDisk()
    disk.make_dir(DIRECTORY)
    return Storage(disk, "/d")


def batch_at(offset: int, timestamp: int, size: int = 10) -> bytearray:
    return encode_batch([Record(offset, timestamp, None, b"v" * size)], base_offset=offset)


def filled(storage: Storage, *, count: int = 50, gap: int = 1, size: int = 10, suffix: str = "") -> Segment:
    segment = Segment.create(storage, DIRECTORY, 100, CONFIG, now_ms=5, suffix=suffix)
    for number in range(count):
        batch = batch_at(100 + number * gap, 1000 + number, size)
        segment.append(batch, decode_header(batch))
    return segment


def loaded(storage: Storage, *, is_sealed: bool) -> Segment:
    """Open the same files as a start does."""
    files = SegmentFiles(storage, DIRECTORY, 100)
    size = files.handle(LOG).open().size()
    return Segment(files, CONFIG.index_interval_bytes, size_bytes=size, is_sealed=is_sealed)


def test_a_sealed_segment_that_is_loaded_knows_what_it_knew_before(storage: Storage) -> None:
    segment = filled(storage)
    segment.seal()
    again = loaded(storage, is_sealed=True)
    assert again.max_timestamp == segment.max_timestamp == 1049
    assert again.first_timestamp == segment.first_timestamp == 1000
    assert again.next_offset == segment.next_offset == 150
    assert [again.position_of(offset) for offset in range(98, 153)] == [
        segment.position_of(offset) for offset in range(98, 153)
    ]


def test_an_active_segment_that_is_loaded_continues_with_the_same_indexes(storage: Storage) -> None:
    interrupted = filled(storage, count=23)
    interrupted.write_indexes()
    resumed = loaded(storage, is_sealed=False)
    for number in range(23, 50):
        batch = batch_at(100 + number, 1000 + number)
        resumed.append(batch, decode_header(batch))
    resumed.seal()
    with_restart = [bytes(file.read_at(0, 1 << 20)) for file in resumed.open_files()]
    whole = filled(storage)
    whole.seal()
    assert [bytes(file.read_at(0, 1 << 20)) for file in whole.open_files()] == with_restart


def test_offsets_in_gaps_lead_to_the_next_batch(storage: Storage) -> None:
    segment = filled(storage, gap=10)
    for offset in range(100, 590):
        header = segment.header_at(segment.position_of(offset))
        assert header.base_offset == -(-(offset - 100) // 10) * 10 + 100
    assert segment.position_of(591) == segment.size_bytes


def test_boundaries_are_found_from_any_start_to_any_limit(storage: Storage) -> None:
    segment = filled(storage, count=20)
    edges = [position for position, _ in segment.headers(0)] + [segment.size_bytes]
    for start in edges[:-1]:
        for limit in range(start, segment.size_bytes + 50, 7):
            position, offset = segment.last_boundary(start, limit)
            expected = max(edge for edge in edges if edge <= max(limit, start))
            assert position == expected
            assert offset == (-1 if expected == start else 100 + edges.index(expected))


def test_a_segment_is_renamed_with_all_its_files(storage: Storage) -> None:
    segment = filled(storage, suffix=".cleaned")
    segment.seal()
    segment.fsync()
    for suffix in (".swap", "", ".deleted"):
        segment.change_suffix(suffix)
        names = {entry.name for entry in storage.disk.list_dir(DIRECTORY)}
        stem = "00000000000000000100"
        assert names == {f"{stem}{kind}{suffix}" for kind in (".log", ".index", ".timeindex")}
        assert segment.position_of(149) == segment.position_of(148) + len(batch_at(0, 0))
        assert set(segment.files.paths()) >= {f"{DIRECTORY}/{name}" for name in names}
    segment.remove()
    assert storage.disk.list_dir(DIRECTORY) == []


def test_an_index_with_entries_missing_is_rebuilt_when_a_walk_gets_long(storage: Storage) -> None:
    segment = filled(storage, count=300, size=1000)
    segment.seal()
    whole = segment.index_bytes
    again = loaded(storage, is_sealed=True)
    storage.disk.contents(f"{DIRECTORY}/00000000000000000100.index")[80:] = b""  # type: ignore[attr-defined]
    assert again.header_at(again.position_of(399)).base_offset == 399
    assert again.index_bytes == whole


def test_truncation_restores_the_latest_timestamp_of_what_is_left(storage: Storage) -> None:
    segment = Segment.create(storage, DIRECTORY, 100, CONFIG, now_ms=5)
    for number, timestamp in enumerate((5, 9, 7, 8, 50, 6)):
        batch = batch_at(100 + number, timestamp)
        segment.append(batch, decode_header(batch))
    assert segment.latest() == (50, 104)
    segment.truncate_to(104)
    assert (segment.latest(), segment.next_offset) == ((9, 101), 104)
    segment.truncate_to(100)
    assert (segment.latest(), segment.first_timestamp, segment.size_bytes) == ((-1, -1), -1, 0)


@pytest.mark.parametrize("size", [10, 3000, 70_000, 1_500_000])
def test_walks_see_every_batch_whatever_its_size(storage: Storage, size: int) -> None:
    segment = filled(storage, count=4, size=size)
    small = batch_at(104, 1004)
    segment.append(small, decode_header(small))
    file = segment.open_file()
    headers = list(walk_headers(file, 0, segment.size_bytes))
    assert [header.base_offset for _, header in headers] == [100, 101, 102, 103, 104]
    batches = list(walk_batches(file, 0, segment.size_bytes))
    assert [(position, header) for position, header, _ in batches] == headers
    assert bytes(batches[-1][2]) == small
    assert all(len(batch) == header.size_bytes for _, header, batch in batches)


@pytest.mark.parametrize("walk", [walk_headers, walk_batches])
def test_walks_stop_at_what_cannot_be_a_batch(storage: Storage, walk: type) -> None:
    segment = filled(storage, count=3)
    file = segment.open_file()
    with pytest.raises(CorruptMessage, match="position 0"):
        list(walk(file, 0, 50))
    size = len(batch_at(0, 0))
    with pytest.raises(CorruptMessage, match=f"position {size}"):
        list(walk(file, 0, 2 * size - 1))
    file.write_at(16, b"\x01")
    with pytest.raises(CorruptMessage, match="no batch at position 0"):
        list(walk(file, 0, segment.size_bytes))
