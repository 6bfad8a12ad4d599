"""Pauses between attempts: exponential, with a maximum and jitter; and calls with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ottla.common.backoff import doubled
from ottla.common.ids import random_fraction
from ottla.wire.errors import TimedOut


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause after so many failures in a row: doubled each time, up to a maximum."""

    first_ms: int
    max_ms: int
    jitter: float = 0.2
    """The pause is randomly shorter or longer by up to this part, so that clients do not retry in step."""

    def pause_ms(self, failures: int) -> float:
        """Return the pause after this many failures (1, 2, ...)."""
        pause = doubled(self.first_ms, failures, self.max_ms)
        return pause * (1 - self.jitter + 2 * self.jitter * random_fraction()) if self.jitter else pause


@asynccontextmanager
async def within(timeout_ms: float, what: str) -> AsyncIterator[None]:
    """Raise TimedOut, which names what was not done, if the body takes longer."""
    limit = asyncio.timeout(timeout_ms / 1000)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOut(f"{what} within {timeout_ms / 1000:g} s") from None
