"""Pauses between attempts: each twice as long as the one before, up to a longest, spread by a fifth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ottla.client.errors import TimedOut
from ottla.common.ids import random_fraction

# Calls that end when their time is over, whatever they wait for.


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


SPREAD = 0.2
MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to pause, by how often it has failed already."""

    first_ms: int
    longest_ms: int

    def pause_ms(self, failures: int) -> float:
        """Return the pause after this many failures (1, 2, ...); random, so that clients get out of step."""
        doubled = self.first_ms << min(max(failures - 1, 0), MAX_DOUBLINGS)
        return min(doubled, self.longest_ms) * (1 - SPREAD + 2 * SPREAD * random_fraction())
