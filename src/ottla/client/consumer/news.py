"""Wakes the calls that wait for records: an event with a deadline, and little more than one future."""

from __future__ import annotations

import asyncio


class News:
    """Is set when there may be something to hand out; who waits takes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiting: set[asyncio.Future[bool]] = set()

    def set(self) -> None:
        """Wake those who wait, or whoever waits next."""
        self._is_set = True
        for each in self._waiting:
            if not each.done():
                each.set_result(True)

    async def wait(self, deadline: float | None) -> bool:
        """Wait until it is set, and take that; return False if the deadline (of the loop's clock) passes."""
        if not self._is_set:
            waiting: asyncio.Future[bool] = self._loop.create_future()
            alarm = None if deadline is None else self._loop.call_at(deadline, _expire, waiting)
            self._waiting.add(waiting)
            try:
                if not await waiting:
                    return False
            finally:
                self._waiting.discard(waiting)
                if alarm is not None:
                    alarm.cancel()
        self._is_set = False
        return True


def _expire(waiting: asyncio.Future[bool]) -> None:
    if not waiting.done():
        waiting.set_result(False)
