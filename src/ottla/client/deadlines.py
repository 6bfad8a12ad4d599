"""Calls that end when their time is over, whatever they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ottla.client.errors import TimedOut


@asynccontextmanager
async def within(timeout_ms: float, what: str) -> AsyncIterator[None]:
    """Raise TimedOut, which says what was not done, when the body takes longer."""
    limit = asyncio.timeout(timeout_ms / 1000)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOut(f"{what} within {timeout_ms / 1000:g} s") from None
