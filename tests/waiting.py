"""Wait for a condition with a deadline, where the thing that is waited for has no event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

DEADLINE_S = 30.0


async def until(condition: Callable[[], object], within_s: float = 20.0) -> None:
    """Poll a condition on the event loop; raise TimeoutError if it does not become true."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.001)


def wait_until(condition: Callable[[], object], what: str, within_s: float = DEADLINE_S) -> None:
    """Poll a condition from a thread; fail if it does not become true."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s:g} s in vain for {what}"
        time.sleep(0.02)
