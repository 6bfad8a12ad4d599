"""Do long work in slices, so that it does not block the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

ITEMS_PER_SLICE = 200
LOGS_PER_SLICE = 16
"""At 5 to 50 us for each log: under a millisecond."""
SLICE_S = 0.005
"""How long `run_in_slices` may block the event loop at a time."""
STEPS_PER_CHECK = 4
YIELD_S = 0.0002


async def in_slices(items: Iterable[T], size: int = ITEMS_PER_SLICE) -> AsyncIterator[T]:
    """Yield the items; after every `size` of them, yield to the event loop.

    Counted, not timed: uvloop's clock does not advance within an iteration, and a simulation must not depend
    on the speed of the machine.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)


async def run_in_slices(steps: Iterable[None]) -> None:
    """Run all steps; yield to the event loop every SLICE_S."""
    began = time.perf_counter()
    for number, _ in enumerate(steps):
        if number % STEPS_PER_CHECK == 0 and time.perf_counter() - began > SLICE_S:
            await asyncio.sleep(0)
            began = time.perf_counter()


def yield_to_loop() -> None:
    """Let the event loop's thread run; for worker threads, since CPython switches only every 5 ms."""
    time.sleep(YIELD_S)
