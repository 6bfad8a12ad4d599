import json
import struct

import pytest

from ottla.protocol.records.batch import stamp
from ottla.protocol.records.records import Record, encode_batch

SEGMENT = "00000000000000000000.log"


def batch(base, *values, codec=0):
    records = [
        Record(n, 1_700_000_000_123, b"key", value, (("h", b"\x00"),)) for n, value in enumerate(values)
    ]
    encoded = encode_batch(records, codec=codec, producer_id=9, producer_epoch=1, base_sequence=base)
    stamp(memoryview(encoded), base, 4)
    return encoded


@pytest.fixture
def segment(tmp_path):
    file = tmp_path / "orders-0" / SEGMENT
    file.parent.mkdir()
    file.write_bytes(batch(0, b"a", b"b") + batch(2, b"c\xff\n", codec=3))
    return file


def test_batches_are_shown_with_offsets_sizes_and_checksums(ottla, segment):
    shown = ottla("log", "dump", str(segment))
    assert shown.code == 0
    first, facts, second, more = shown.lines
    assert first.startswith("at 0: offsets 0-1, records 2, bytes ")
    assert first.endswith(" ok")
    assert facts == "  uncompressed, CreateTime 2023-11-14 22:13:20.123, epoch 4, producer 9/1, sequence 0-1"
    assert "offsets 2-2, records 1" in second
    assert "lz4" in more
    assert shown.err == f"{SEGMENT}: 2 items, no problems\n"


def test_deep_shows_records_so_that_no_byte_disturbs_the_terminal(ottla, segment):
    lines = ottla("log", "dump", str(segment), "--deep").lines
    assert lines[2] == r"  0 2023-11-14 22:13:20.123 key=key value=a headers: h=\x00"
    assert r"value=c\xff\n headers" in lines[-1]


def test_json_has_one_object_per_batch(ottla, segment):
    shown = ottla("log", "dump", str(segment), "--deep", "--format", "json")
    first, second = map(json.loads, shown.lines)
    assert (first["kind"], first["base_offset"], first["last_offset"], first["crc_ok"]) == (
        "batch",
        0,
        1,
        True,
    )
    assert second["codec"] == "lz4"
    assert second["records"][0]["value"] == {"base64": "Y/8K"}


def test_a_flipped_bit_is_a_problem_and_an_exit_code(ottla, segment):
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    shown = ottla("log", "dump", str(segment))
    assert shown.code == 1
    assert "WRONG" in shown.lines[2]
    assert "problem: CRC32C is 0x" in shown.lines[4]
    assert shown.err == f"{SEGMENT}: 2 items, 1 problem\n"


def test_a_torn_tail_is_shown_as_a_gap(ottla, segment):
    segment.write_bytes(segment.read_bytes()[:-5])
    shown = ottla("log", "dump", str(segment))
    assert shown.code == 1
    assert "bytes that are not a batch or an entry" in shown.lines[2]
    assert "a torn write?" in shown.lines[3]


def test_index_entries_are_shown(ottla, segment):
    index = segment.with_suffix(".index")
    index.write_bytes(struct.pack(">ii", 2, len(batch(0, b"a", b"b"))))
    shown = ottla("log", "dump", str(index))
    assert (shown.code, shown.lines) == (0, [f"offset 2 at {len(batch(0, b'a', b'b'))}"])


def test_time_index_entries_are_shown(ottla, segment):
    index = segment.with_suffix(".timeindex")
    index.write_bytes(struct.pack(">qi", 1_700_000_000_123, 2))
    assert ottla("log", "dump", str(index)).lines[0] == "2023-11-14 22:13:20.123 (1700000000123) offset 2"


def test_several_files_each_have_a_heading(ottla, segment):
    other = segment.with_name("00000000000000000003.log")
    other.write_bytes(batch(3, b"d"))
    lines = ottla("log", "dump", str(segment), str(other)).lines
    assert lines[0] == f"{segment}:"
    assert f"{other}:" in lines


def test_a_file_that_is_not_there_comes_with_the_near_one(ottla, segment):
    missing = segment.with_name("0000000000000000000.log")
    failed = ottla("log", "dump", str(missing))
    assert failed.code == 1
    assert failed.err == f"error: there is no file {missing}\n  did you mean: {segment}?\n"


def test_a_directory_comes_with_what_to_type(ottla, segment):
    failed = ottla("log", "dump", str(segment.parent.parent))
    assert failed.code == 1
    assert f"ottla log dump {segment}" in failed.err


def test_a_file_of_another_kind_is_refused(ottla, segment):
    stranger = segment.with_name("notes.txt")
    stranger.write_text("hello")
    failed = ottla("log", "dump", str(stranger))
    assert failed.code == 1
    assert "notes.txt is not a log file" in failed.err
    assert f"ottla log dump {segment}" in failed.err


def test_a_log_of_another_program_is_refused(ottla, tmp_path):
    stranger = tmp_path / "app.log"
    stranger.write_text("2026-11-15 INFO started\n" * 20)
    failed = ottla("log", "dump", str(stranger))
    assert (failed.code, failed.out) == (1, b"")
    assert "does not look like a segment of a Kafka log" in failed.err
