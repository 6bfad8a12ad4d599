from __future__ import annotations

import asyncio

from ottla.cli.support.child_processes import _lines


async def test_a_line_that_is_too_long_does_not_end_the_reading_of_a_child() -> None:
    pipe = asyncio.StreamReader(limit=100)
    pipe.feed_data(b"first\n" + b"x" * 150)
    reading = _lines(pipe)
    found = [await anext(reading), await anext(reading)]
    pipe.feed_data(b"x\nlast\n")
    pipe.feed_eof()
    found += [each async for each in reading]
    assert found == [b"first\n", b"[a line that is too long]\n", b"x\n", b"last\n"]
