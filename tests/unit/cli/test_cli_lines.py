import os
import threading

import pytest

from ottla.cli.support import line_input
from ottla.cli.support.line_input import by_delimiter, read_files, read_lines, whole_files


def piped(*chunks):
    reading, writing = os.pipe()

    def write():
        for chunk in chunks:
            os.write(writing, chunk)
        os.close(writing)

    threading.Thread(target=write).start()
    return reading


async def all_lines(descriptor):
    found = [line async for some in read_lines(descriptor) for line in some]
    os.close(descriptor)
    return found


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ([], []),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a\nb"], [b"a", b"b"]),
        ([b"a", b"b\nc", b"\n"], [b"ab", b"c"]),
        ([b"\n\n"], [b"", b""]),
        ([b"a\r\nb\r"], [b"a", b"b"]),
        ([b"\xff\x00\n"], [b"\xff\x00"]),
    ],
)
async def test_lines_are_found_wherever_chunks_end(chunks, found):
    assert await all_lines(piped(*chunks)) == found


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_another_delimiter_is_found_wherever_chunks_end(size):
    data = b"a\nb<>c<d<><>e"
    descriptor = piped(*[data[at : at + size] for at in range(0, len(data), size)])
    found = [each async for some in read_lines(descriptor, by_delimiter(b"<>")) for each in some]
    os.close(descriptor)
    assert found == [b"a\nb", b"c<d", b"", b"e"]


async def test_files_are_read_one_after_the_other_and_whole(tmp_path):
    paths = [tmp_path / name for name in ("one", "two")]
    paths[0].write_bytes(b"a\nb")
    paths[1].write_bytes(b"c\n")
    assert [each async for some in read_files(paths) for each in some] == [b"a", b"b", b"c"]
    assert [each async for some in whole_files(paths) for each in some] == [b"a\nb", b"c\n"]


async def test_many_lines_come_in_order_through_a_small_window():
    data = b"".join(b"%d\n" % n for n in range(200_000))
    assert await all_lines(piped(data)) == [b"%d" % n for n in range(200_000)]


async def test_chunks_of_a_long_line_are_joined_once(monkeypatch):
    monkeypatch.setattr(line_input, "CHUNK_BYTES", 10)
    tried = []

    def cut(data):
        tried.append(len(data))
        return by_delimiter(b";")(data)

    descriptor = piped(b"x" * 95 + b";" + b"y;z")
    found = [each async for some in read_lines(descriptor, cut, b";") for each in some]
    os.close(descriptor)
    assert found == [b"x" * 95, b"y", b"z"]
    assert len(tried) == 1


async def test_a_line_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(line_input, "MAX_LINE_BYTES", 100)
    descriptor = piped(b"x" * 101)
    with pytest.raises(ValueError, match="a line is longer than"):
        await all_lines(descriptor)
    os.close(descriptor)


async def test_a_file_that_cannot_be_read_raises_what_the_system_says():
    descriptor = os.open("/", os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        await all_lines(descriptor)
    os.close(descriptor)
