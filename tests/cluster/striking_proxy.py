"""A proxy that strikes at one step of a protocol: before a request is seen, or before its answer is.

The client keeps talking through the proxy while whoever was struck is started again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.integration.frame_proxy import Call, Cut, FrameProxy


class Step(NamedTuple):
    """Where to strike."""

    api_key: int
    when: str  # "before" the broker sees the request, or "after", when it has answered


class StrikingProxy(FrameProxy):
    """Calls `action` once at the armed step, cuts that connection, and sets `struck`."""

    def __init__(self, broker_address: str) -> None:
        super().__init__(broker_address)
        self.struck = threading.Event()
        self._open = asyncio.Event()
        self._open.set()
        self._armed: tuple[Step, Callable[[], None]] | None = None

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Let no request pass inside a with block; those that come wait."""
        self._loop.call_soon_threadsafe(self._open.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._open.set)

    def arm(self, step: Step, action: Callable[[], None]) -> None:
        """Strike at the next request of this kind."""
        self.struck.clear()
        self._armed = step, action

    async def on_request(self, call: Call) -> bool:
        await self._open.wait()
        self._strike_at(Step(call.api_key, "before"))
        return True

    async def on_answer(self, call: Call, answer: bytes) -> None:
        self._strike_at(Step(call.api_key, "after"))

    def _strike_at(self, step: Step) -> None:
        if self._armed is not None and self._armed[0] == step:
            _, action = self._armed
            self._armed = None
            action()  # nothing else passes meanwhile
            self.struck.set()
            raise Cut
