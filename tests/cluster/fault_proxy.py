"""A proxy that makes a fault at one step of a protocol: before a request arrives, or before its answer does.

The client stays connected to the proxy while the process with the fault is started again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.integration.frame_proxy import Call, Cut, FrameProxy


class Step(NamedTuple):
    """Where the fault happens."""

    api_key: int
    when: str  # "before" the broker sees the request, or "after", when it has answered


class FaultProxy(FrameProxy):
    """Calls `action` once at the armed step, cuts that connection, and sets `has_fired`."""

    def __init__(self, broker_address: str) -> None:
        super().__init__(broker_address)
        self.has_fired = threading.Event()
        self._open = asyncio.Event()
        self._open.set()
        self.is_firing = False
        """Whether the action has begun; it may kill what a test watches."""
        self._armed: tuple[Step, Callable[[], None]] | None = None

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Let no request pass inside a with block; those that come wait."""
        self._loop_thread.post(self._open.clear)
        try:
            yield
        finally:
            self._loop_thread.post(self._open.set)

    def arm(self, step: Step, action: Callable[[], None]) -> None:
        """Run the action at the next request of this kind."""
        self.has_fired.clear()
        self.is_firing = False
        self._armed = step, action

    async def on_request(self, call: Call) -> bool:
        await self._open.wait()
        self._fire_at(Step(call.api_key, "before"))
        return True

    async def on_answer(self, call: Call, answer: bytes) -> None:
        self._fire_at(Step(call.api_key, "after"))

    def _fire_at(self, step: Step) -> None:
        if self._armed is not None and self._armed[0] == step:
            _, action = self._armed
            self._armed = None
            self.is_firing = True
            action()  # nothing else passes meanwhile
            self.has_fired.set()
            raise Cut
