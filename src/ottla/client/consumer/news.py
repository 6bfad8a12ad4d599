"""Wakes the calls that wait for records: an event with a deadline, and little more than one future.

There is one alarm for all of them. It is not taken back when a call returns: most calls return long before
their deadline, and an alarm that rings for nobody costs less than one that is set and cancelled each time.
"""

from __future__ import annotations

import asyncio

RESOLUTION_S = 0.001


class News:
    """Is set when there may be something to hand out; who waits takes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiting: dict[asyncio.Future[bool], float | None] = {}
        """Those who wait, each with its deadline."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

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
            if deadline is not None and (self._alarm is None or deadline < self._alarm_at):
                self._set_alarm(deadline)
            try:
                if not await waiting:
                    return False
            finally:
                del self._waiting[waiting]
        self._is_set = False
        return True

    def close(self) -> None:
        """Take the alarm back."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        """Send those away whose time is over; look again when the next one's is."""
        self._alarm = None
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
            self._set_alarm(min(to_come))
