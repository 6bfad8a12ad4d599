"""The input of `ottla produce`: lines, or what another delimiter ends, of standard input or of files.

Standard input is read in a daemon thread so that it never blocks the event loop: nothing can wake a thread
that waits for input, and the program must be able to end without it. It reads a few chunks ahead.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

CHUNK_BYTES = 256 * 1024
CHUNKS_AHEAD = 8
MAX_LINE_BYTES = 64 * 1024 * 1024
NEWLINE = b"\n"

Cut = Callable[[bytes], tuple[list[bytes], int]]
"""Divides bytes into records; says how many bytes they were, with their delimiters."""


def by_delimiter(delimiter: bytes) -> Cut:
    """Return a function that divides bytes where a delimiter is; of lines, a carriage return is removed."""

    def cut(data: bytes) -> tuple[list[bytes], int]:
        end = data.rfind(delimiter) + len(delimiter)
        if end < len(delimiter):
            return [], 0
        pieces = data[:end].split(delimiter)
        del pieces[-1]
        if delimiter == NEWLINE and b"\r" in data:  # a search for one byte takes a twentieth of one for two
            pieces = [each.removesuffix(b"\r") for each in pieces]
        return pieces, end

    return cut


LINES = by_delimiter(NEWLINE)


async def read_lines(
    descriptor: int = 0, cut: Cut = LINES, last: bytes | None = None
) -> AsyncIterator[list[bytes]]:
    """Yield the available records of a file, without their delimiters.

    `last` is the byte that every record ends with, if there is one: chunks without it are only kept.
    Raise ValueError for a record that does not end within MAX_LINE_BYTES.
    """
    last = NEWLINE if cut is LINES else last
    rest = b""
    waiting: list[bytes] = []
    waiting_bytes = 0
    async for chunk in _chunks(descriptor):
        waiting.append(chunk)
        waiting_bytes += len(chunk)
        if last is None or last in chunk:  # a long line is joined once, not with each chunk
            rest = b"".join((rest, *waiting))
            waiting, waiting_bytes = [], 0
            found, end = cut(rest)
            rest = rest[end:]
            if found:
                yield found
        if len(rest) + waiting_bytes > MAX_LINE_BYTES:
            raise ValueError(
                f"a line is longer than {MAX_LINE_BYTES // 2**20} MiB: records end with a newline"
                if cut is LINES
                else f"a record is longer than {MAX_LINE_BYTES // 2**20} MiB, or has no end"
            )
    rest = b"".join((rest, *waiting))
    if rest:
        yield [rest.removesuffix(b"\r") if cut is LINES else rest]


async def read_files(paths: Sequence[Path], cut: Cut = LINES) -> AsyncIterator[list[bytes]]:
    """Yield the records of files, one file after the other."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            async for some in read_lines(descriptor, cut):
                yield some
        finally:
            os.close(descriptor)


async def whole_files(paths: Sequence[Path]) -> AsyncIterator[list[bytes]]:
    """Yield each file as one value."""
    for path in paths:
        yield [await asyncio.to_thread(path.read_bytes)]


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    ahead = threading.Semaphore(CHUNKS_AHEAD)

    def pump() -> None:
        item: bytes | OSError = b"?"
        while item and not isinstance(item, OSError):
            ahead.acquire()
            try:
                item = os.read(descriptor, CHUNK_BYTES)
            except OSError as error:
                item = error
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, item)
            except RuntimeError:  # the event loop has ended
                return

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    while True:
        item = await arrived.get()
        ahead.release()
        if isinstance(item, OSError):
            raise item
        if not item:
            return
        yield item
