"""Iterate over long lists without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

ITEMS_PER_TURN = 200


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items; after every ITEMS_PER_SLICE of them, yield to the event loop."""
    for number, item in enumerate(items, 1):
        yield item
        if number % ITEMS_PER_TURN == 0:
            await asyncio.sleep(0)
