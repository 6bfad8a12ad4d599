"""Standard input by lines, read in a thread of its own so that the event loop never waits for it.

The thread is a daemon: nothing can wake a thread that waits for a person to type, and the program
must be able to end without it. It stays at most a few chunks ahead of the reader.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator

CHUNK_BYTES = 256 * 1024
CHUNKS_AHEAD = 8
MAX_LINE_BYTES = 64 * 1024 * 1024


async def read_lines(descriptor: int = 0) -> AsyncIterator[list[bytes]]:
    """Yield the lines of a file, without their line ends, as many at a time as there are.

    Raises ValueError for a line that does not end within MAX_LINE_BYTES.
    """
    rest = bytearray()
    async for chunk in _chunks(descriptor):
        searched = len(rest)
        rest += chunk
        cut = rest.rfind(b"\n", searched) + 1
        if cut:
            lines = bytes(rest[:cut]).split(b"\n")
            del rest[:cut], lines[-1]
            yield [line.removesuffix(b"\r") for line in lines]
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError(
                f"a line is longer than {MAX_LINE_BYTES // 2**20} MiB: records end with a newline"
            )
    if rest:
        yield [bytes(rest).removesuffix(b"\r")]


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
            except RuntimeError:  # the loop is gone, and nobody is listening
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
