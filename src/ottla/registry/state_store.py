"""Reads and changes a state that is the fold of a topic; opens the topic when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Protocol

from ottla.registry import errors
from ottla.registry.schema_log import Encodable, StateLog, StateT
from ottla.registry.topic import Conflict

MAX_ATTEMPTS = 100


class Decided(Protocol):
    """What to write, in one batch, and what to answer when it is written."""

    @property
    def answer(self) -> Any:
        """The answer."""

    @property
    def records(self) -> Sequence[Encodable]:
        """The records."""


class StateStore(Generic[StateT]):
    """What a registry process keeps beside its schemas: keys, exporters. `open_log` opens the topic."""

    def __init__(self, open_log: Callable[[], Awaitable[StateLog[StateT]]]) -> None:
        self._open_log = open_log
        self._log: StateLog[StateT] | None = None
        self._opening = asyncio.Lock()

    async def _opened(self) -> StateLog[StateT]:
        async with self._opening:
            if self._log is None:
                self._log = await self._open_log()
        return self._log

    async def fresh(self) -> StateT:
        """Return a state that has everything that was written before the call."""
        return await (await self._opened()).catch_up()

    async def change(self, decide: Callable[[StateT], Decided]) -> Any:
        """Write what is decided from the newest state, and return the answer."""
        log = await self._opened()
        for _ in range(MAX_ATTEMPTS):
            async with log.writing:
                decision = decide(await log.catch_up())
                if decision.records:
                    try:
                        await log.append(decision.records)
                    except Conflict:
                        continue
                return decision.answer
        raise errors.timed_out("Too many others write at the same time")
