"""Processes that are started here: they end with their parent, and stop when asked to."""

from __future__ import annotations

import asyncio
import ctypes
import signal
from contextlib import suppress

PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Have the system end this process (SIGTERM) when the thread that started it ends, even by kill -9.

    For `preexec_fn` of a process that is started by the main thread.
    """
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def terminate(process: asyncio.subprocess.Process, within_s: float) -> None:
    """Stop a process with SIGTERM, or with SIGKILL if it takes longer; return when it has ended."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
