"""Long work on the loop, cut into slices: thousands of logs are looked at, nobody else waits for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE = 16
"""How many logs are looked at before everybody else gets a turn: at 5 to 50 us each, under a millisecond.

Counted, not timed: uvloop's clock stands still within a turn, and a simulation must not depend on how
fast the machine is.
"""


async def in_slices(items: Iterable[T], size: int = SLICE) -> AsyncIterator[T]:
    """Yield every item, and let the loop do other things after every `size` of them."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)
