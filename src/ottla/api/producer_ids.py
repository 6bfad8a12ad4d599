"""Producer ids, taken from the controller a block at a time so that most requests cost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.protocol.errors import CoordinatorLoadInProgress, KafkaError


class ProducerIds:
    """Hands out ids that no producer of this cluster ever had."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """Return a new id; after a crash the rest of the block is skipped, never repeated."""
        async with self._lock:
            if not self._block:
                self._block = await self._ask()
            producer_id = self._block[0]
            self._block = self._block[1:]
            return producer_id

    async def _ask(self) -> range:
        """Return more ids. Of a missing controller clients know nothing: they are told to try again."""
        try:
            return await self._allocate()
        except KafkaError as error:
            raise CoordinatorLoadInProgress(f"there are no producer ids at the moment: {error}") from error
