from __future__ import annotations

import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.log.dump import (
    AbortedEntry,
    BatchReport,
    EpochEntry,
    Gap,
    NotALogFile,
    OffsetEntry,
    ProducerEntry,
    Report,
    TimeEntry,
    dump,
)
from ottla.protocol.records.records import Record, encode_batch

NOW = 1_700_000_000_000
NAME = "00000000000000000100"


def batch_of(base_offset: int, count: int = 2, codec: int = 0) -> bytearray:
    records = [Record(base_offset + i, NOW + i, b"key %d" % i, b"value" * 20) for i in range(count)]
    return encode_batch(records, base_offset=base_offset, codec=codec)


def write(folder: Path, name: str, data: bytes | bytearray | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else bytes(data))
    return path


def batches(path: Path, *, deep: bool = False) -> list[BatchReport]:
    return [report for report in dump(path, deep=deep) if isinstance(report, BatchReport)]


def gaps(path: Path) -> list[Gap]:
    return [report for report in dump(path) if isinstance(report, Gap)]


def test_batches_come_with_their_position_and_verdict(tmp_path: Path) -> None:
    first, second = batch_of(100), batch_of(102, codec=4)
    path = write(tmp_path, f"{NAME}.log", first + second)
    found = list(dump(path))
    assert [(r.position, r.problem) for r in found] == [(0, None), (len(first), None)]
    assert [r.header.base_offset for r in batches(path)] == [100, 102]
    assert all(r.crc_ok and r.records is None for r in batches(path))
    deep = batches(path, deep=True)[1].records
    assert deep is not None
    assert [(r.offset, r.key) for r in deep] == [(102, b"key 0"), (103, b"key 1")]


def test_a_flipped_bit_is_reported_and_the_next_batch_is_still_read(tmp_path: Path) -> None:
    first, second = batch_of(100), batch_of(102)
    first[-3] ^= 4
    bad, good = batches(write(tmp_path, f"{NAME}.log", first + second), deep=True)
    assert not bad.crc_ok
    assert bad.problem is not None
    assert bad.problem.startswith("CRC32C is 0x")
    assert bad.records is None
    assert (good.crc_ok, good.problem, len(good.records or ())) == (True, None, 2)


@pytest.mark.parametrize("length", [0, 48, 2**31 - 1, -5])
def test_a_lying_length_hides_one_batch_only(tmp_path: Path, length: int) -> None:
    parts = [batch_of(100), batch_of(102), batch_of(104)]
    parts[1][8:12] = struct.pack(">i", length)
    path = write(tmp_path, f"{NAME}.log", b"".join(parts))
    assert [r.header.base_offset for r in batches(path)] == [100, 104]
    (gap,) = gaps(path)
    assert (gap.position, gap.size_bytes) == (len(parts[0]), len(parts[1]))
    assert "the batch says it has" in gap.problem


def test_a_torn_tail_is_a_gap(tmp_path: Path) -> None:
    first, second = batch_of(100), batch_of(102)
    for cut in (1, 30, 60, 61, len(second) - 1):
        path = write(tmp_path, f"{NAME}.log", first + second[:cut])
        assert [r.header.base_offset for r in batches(path)] == [100]
        assert gaps(path)[0].position == len(first)
        assert sum(gap.size_bytes for gap in gaps(path)) == cut


def test_zeros_at_the_end_are_called_by_their_name(tmp_path: Path) -> None:
    (gap,) = gaps(write(tmp_path, f"{NAME}.log", batch_of(100) + bytes(5000)))
    assert gap.size_bytes == 5000
    assert gap.problem.startswith("zeros")


def test_offsets_that_step_back_are_reported(tmp_path: Path) -> None:
    _, second = batches(write(tmp_path, f"{NAME}.log", batch_of(100) + batch_of(101)))
    assert second.problem == "starts at offset 101, but 102 was to come next"


def test_records_that_cannot_be_decoded_are_reported(tmp_path: Path) -> None:
    batch = batch_of(100)
    batch[57:61] = struct.pack(">i", 3)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    path = write(tmp_path, f"{NAME}.log", batch)
    assert batches(path)[0].problem is None
    assert "cannot be read" in str(batches(path, deep=True)[0].problem)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_stops_a_dump_and_every_byte_is_accounted_for(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(batch_of(0) + batch_of(2, codec=1) + batch_of(4))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    position = 0
    for report in dump(write(tmp_path, f"{NAME}.log", content), deep=True):
        assert isinstance(report, BatchReport | Gap)
        assert report.position == position
        position += report.size_bytes if isinstance(report, Gap) else report.header.size_bytes
    assert position == len(content)


def test_index_entries_are_compared_with_the_log(tmp_path: Path) -> None:
    first, second = batch_of(100), batch_of(102)
    write(tmp_path, f"{NAME}.log", first + second)
    entries = [(1, 0), (3, len(first)), (4, len(first) + 1), (9, 10**6), (2, 3)]
    path = write(tmp_path, f"{NAME}.index", b"".join(struct.pack(">II", *entry) for entry in entries))
    found = list(dump(path))
    assert found[:2] == [OffsetEntry(0, 101, 0, None), OffsetEntry(8, 103, len(first), None)]
    problems = [report.problem for report in found[2:]]
    assert problems == [
        f"no batch starts there in {NAME}.log",
        f"points past the end of {NAME}.log",
        "does not ascend",
    ]
    write(tmp_path, f"{NAME}.index", struct.pack(">II", 2, len(first)))
    assert [report.problem for report in dump(path)] == ["the batch there ends at offset 103"]


def test_time_index_entries_must_ascend(tmp_path: Path) -> None:
    data = struct.pack(">qIqIqI", NOW, 1, NOW + 5, 3, NOW + 2, 7)
    assert list(dump(write(tmp_path, f"{NAME}.timeindex", data))) == [
        TimeEntry(0, NOW, 101, None),
        TimeEntry(12, NOW + 5, 103, None),
        TimeEntry(24, NOW + 2, 107, "does not ascend"),
    ]


def test_torn_and_preallocated_indexes_end_with_a_gap(tmp_path: Path) -> None:
    entry = struct.pack(">II", 1, 256)
    assert gaps(write(tmp_path, f"{NAME}.index", entry + b"\0\0\0\2")) == [
        Gap(8, 4, "an entry takes 8 bytes: a torn write?")
    ]
    path = write(tmp_path, f"{NAME}.index", entry + bytes(800))
    assert [type(report) for report in dump(path)] == [OffsetEntry, Gap]
    assert list(dump(write(tmp_path, f"{NAME}.index", b""))) == []


def snapshot(*producer_ids: int) -> bytes:
    entries = b"".join(
        struct.pack(">qhiqiqiq", producer_id, 1, 41, 199, 4, NOW, -1, -1) for producer_id in producer_ids
    )
    body = struct.pack(">i", len(producer_ids)) + entries
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_snapshots_list_their_producers(tmp_path: Path) -> None:
    found = list(dump(write(tmp_path, f"{NAME}.snapshot", snapshot(7, 8))))
    assert found[0] == ProducerEntry(10, 7, 1, 41, 199, 4, NOW, -1, -1, None)
    assert isinstance(found[1], ProducerEntry)
    assert found[1].producer_id == 8
    assert list(dump(write(tmp_path, f"{NAME}.snapshot", snapshot()))) == []


def test_damaged_snapshots_are_reported(tmp_path: Path) -> None:
    def problems(data: bytes) -> list[str | None]:
        return [report.problem for report in dump(write(tmp_path, f"{NAME}.snapshot", data))]

    flipped = bytearray(snapshot(7))
    flipped[-1] ^= 1
    assert str(problems(bytes(flipped))[0]).startswith("CRC32C is 0x")
    assert "2 entries are stated, 1 were read" in str(problems(snapshot(7, 8)[:-3])[-1])
    assert problems(b"\0\1") == ["a snapshot has at least 10 bytes: a torn write?"]
    assert problems(b"\0\x63" + bytes(20)) == ["snapshot version 99 instead of 1"]


def test_leader_epochs_are_listed_and_must_ascend(tmp_path: Path) -> None:
    path = write(tmp_path, "leader-epoch-checkpoint", "0\n3\n0 0\n4 100\n2 150\n")
    assert list(dump(path)) == [
        EpochEntry(3, 0, 0, None),
        EpochEntry(4, 4, 100, None),
        EpochEntry(5, 2, 150, "does not ascend"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the first two lines are not a version 0 and a count"),
        ("1\n0\n", "the first two lines are not a version 0 and a count"),
        ("0\n2\n0 0\n", "2 epochs are announced, 1 were read"),
        ("0\n1\n0 zero\n", "line 3 is no `epoch offset`: '0 zero'"),
    ],
)
def test_damaged_epoch_files_are_reported(tmp_path: Path, text: str, problem: str) -> None:
    found: list[Report] = list(dump(write(tmp_path, "leader-epoch-checkpoint", text)))
    assert problem in [report.problem for report in found]


@pytest.mark.parametrize("suffix", [".cleaned", ".swap", ".deleted"])
def test_files_on_their_way_in_or_out_can_be_read_too(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, f"{NAME}.log{suffix}", batch_of(100))
    assert [r.header.base_offset for r in batches(path)] == [100]


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotALogFile, match=r"meta\.properties is not a log file"):
        dump(write(tmp_path, "meta.properties", ""))


def test_aborted_transactions_are_dumped_with_what_is_wrong_with_them(tmp_path: Path) -> None:
    entries = [(0, 7, 100, 110, 111), (0, 8, 105, 109, 112), (0, 9, 130, 120, 121), (3, 9, 1, 140, 141)]
    data = b"".join(struct.pack(">hqqqq", *each) for each in entries) + b"torn"
    found = list(dump(write(tmp_path, f"{NAME}.txnindex", data)))
    first = found[0]
    assert isinstance(first, AbortedEntry)
    assert (first.producer_id, first.first_offset, first.last_offset) == (7, 100, 110)
    assert first.last_stable_offset == 111
    assert [each.problem for each in found[:4]] == [
        None,
        "does not ascend",
        "ends before it begins",
        "version 3 instead of 0",
    ]
    assert isinstance(found[4], Gap)
    assert (found[4].position, found[4].size_bytes) == (4 * 34, 4)
