"""Bound how long a request waits for an unavailable controller, coordinator or ZooKeeper.

Problem: a connection answers in order, so a request that waits blocks all that follow. A Fetch that could be
answered at once waited for seconds behind a FindCoordinator whose coordinator was dead.

Solution: wait as long as no other request is blocked. As soon as another request of the same connection is,
wait for a tenth of a second at most, then answer with a retriable error (decision 82).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from ottla.api.support.context import ClientConnection
from ottla.protocol.errors import KafkaError

T = TypeVar("T")

MAX_WAIT_S = 3.0
"""How long a request waits while it blocks no other."""
MAX_HOLD_S = 0.1
"""How long it blocks the next request of its connection."""
POLL_INTERVAL_S = 0.02


class BriefWait:
    """The wait of one request."""

    def __init__(self, connection: ClientConnection, max_hold_s: float | None = None) -> None:
        self._connection = connection
        self._max_hold_s = MAX_HOLD_S if max_hold_s is None else max_hold_s
        self._now = asyncio.get_running_loop().time
        self._deadline_s = self._now() + MAX_WAIT_S

    @property
    def is_over(self) -> bool:
        """Whether the request must be answered now."""
        now_s = self._now()
        if self._connection.has_queued_request:
            self._deadline_s = min(self._deadline_s, now_s + self._max_hold_s)
        return now_s >= self._deadline_s

    async def until_done(self, work: Awaitable[T], otherwise: KafkaError) -> T:
        """Return the result of `work`; if the wait ends before, cancel it and raise `otherwise`."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=POLL_INTERVAL_S)
                if self.is_over and not task.done():
                    raise otherwise
            return task.result()
        finally:
            task.cancel()
