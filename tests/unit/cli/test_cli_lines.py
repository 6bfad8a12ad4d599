import os
import threading

import pytest

from ottla.cli import produce
from ottla.cli.produce import read_lines


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


async def test_many_lines_come_in_order_through_a_small_window():
    data = b"".join(b"%d\n" % n for n in range(200_000))
    assert await all_lines(piped(data)) == [b"%d" % n for n in range(200_000)]


async def test_a_line_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(produce, "MAX_LINE_BYTES", 100)
    descriptor = piped(b"x" * 101)
    with pytest.raises(ValueError, match="a line is longer than"):
        await all_lines(descriptor)
    os.close(descriptor)


async def test_a_file_that_cannot_be_read_raises_what_the_system_says():
    descriptor = os.open("/", os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        await all_lines(descriptor)
    os.close(descriptor)
