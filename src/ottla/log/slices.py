"""Split long work on the event loop into slices, so that other tasks can run in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 16
"""How many logs are processed before yielding: at 5 to 50 us each, under a millisecond.

Counted, not timed: uvloop's clock does not advance within an iteration, and a simulation must not depend on
the speed of the machine.
"""


async def in_slices(items: Iterable[T], size: int = SLICE) -> AsyncIterator[T]:
    """Yield every item, and yield to the loop after every `size` of them."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)
