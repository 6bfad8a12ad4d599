"""Wakes the calls that wait for records: an event with a deadline, and little more than one future."""

from __future__ import annotations

import asyncio

from ottla.wire.in_flight import DeadlineTimer

RESOLUTION_S = 0.001


class WakeupEvent:
    """Is set when there may be something to hand out; who waits takes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiting: dict[asyncio.Future[bool], float | None] = {}
        """Those who wait, each with its deadline."""
        self._alarm = DeadlineTimer(loop, self._send_away)

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
            self._waiting[waiting] = deadline
            if deadline is not None:
                self._alarm.set(deadline)
            try:
                if not await waiting:
                    return False
            finally:
                del self._waiting[waiting]
        self._is_set = False
        return True

    def close(self) -> None:
        """Take the alarm back."""
        self._alarm.cancel()

    def _send_away(self) -> None:
        """Send those away whose time is over; look again when the next one's is."""
        now = self._loop.time()
        to_come: list[float] = []
        for waiting, deadline in self._waiting.items():
            if deadline is None or waiting.done():
                continue
            if deadline - now < RESOLUTION_S:  # the alarm may come a little early
                waiting.set_result(False)
            else:
                to_come.append(deadline)
        if to_come:
            self._alarm.set(min(to_come))
