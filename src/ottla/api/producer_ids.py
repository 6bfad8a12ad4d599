"""Producer ids, taken from the controller a block at a time so that most requests cost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.protocol.errors import CoordinatorLoadInProgress, KafkaError

SOON_S = 0.1


class ProducerIds:
    """Hands out ids that no producer of this cluster ever had."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._filling: asyncio.Task[None] | None = None

    @property
    def has_some(self) -> bool:
        """Whether an id can be had at once."""
        return bool(self._block)

    async def next(self) -> int:
        """Return a new id; after a crash the rest of the block is skipped, never repeated."""
        while not self._block:
            await self.fill()
        producer_id = self._block[0]
        self._block = self._block[1:]
        return producer_id

    async def next_soon(self) -> int:
        """Return a new id; raise CoordinatorLoadInProgress if there is none within a moment."""
        try:
            async with asyncio.timeout(SOON_S):
                return await self.next()
        except TimeoutError:
            raise CoordinatorLoadInProgress("there are no producer ids at the moment") from None

    async def fill(self) -> None:
        """Wait until there are ids. They are asked for once for all, who may stop waiting at any time."""
        if self._filling is None:
            self._filling = asyncio.create_task(self._fill(), name="allocate producer ids")
            self._filling.add_done_callback(self._filled)
        await asyncio.shield(self._filling)

    def stop(self) -> None:
        """Ask no more."""
        if self._filling is not None:
            self._filling.cancel()

    def _filled(self, filling: asyncio.Task[None]) -> None:
        self._filling = None
        if not filling.cancelled():
            filling.exception()  # perhaps nobody waits any more

    async def _fill(self) -> None:
        """Take more ids. Of a missing controller clients know nothing: they are told to try again."""
        try:
            self._block = await self._allocate()
        except KafkaError as error:
            raise CoordinatorLoadInProgress(f"there are no producer ids at the moment: {error}") from error
