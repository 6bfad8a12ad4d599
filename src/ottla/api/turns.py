"""Long requests, a part at a time: no request may hold up the loop for all the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

ITEMS_PER_TURN = 200


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items; after every so many of them, everybody else on the loop has a turn."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)
