"""A partition in memory: what a runtime appends, and when that counts as committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import KafkaError


class MemoryWriter:
    """Commits at once, unless it is told to hold back."""

    def __init__(self, records: list[Any] | None = None) -> None:
        self.records: list[Any] = [] if records is None else list(records)
        self.holds_back = False
        self.failure: Exception | None = None
        self.per_batch: int | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def load(self, replay: Callable[[Any], None]) -> int:
        for record in self.records:
            replay(record)
        return len(self.records)

    def append(self, records: tuple[Any, ...]) -> tuple[int, int]:
        if self.failure is not None:
            raise self.failure
        batch = records[: self.per_batch]
        self.records.extend(batch)
        return len(self.records), len(batch)

    def committed(self, offset: int) -> asyncio.Future[None] | None:
        if not self.holds_back:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def commit(self, error: KafkaError | None = None) -> None:
        """Let everything so far be committed, or fail."""
        self.holds_back = False
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
