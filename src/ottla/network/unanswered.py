"""The requests of one connection that are not answered yet, in the order they came."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

from ottla.network.budget import Budget
from ottla.network.handler import Reply

Answer: TypeAlias = "asyncio.Future[Reply | None]"


class Unanswered:
    """Keeps replies back until every earlier request has its own."""

    __slots__ = ("_requests", "is_overlapping", "line")

    def __init__(self, requests: Budget) -> None:
        self.line: deque[Answer | Reply] = deque()  # never starts with a reply
        self.is_overlapping = False  # all in line are, or there is only one
        self._requests = requests

    def add(self, answer: Answer, overlaps: bool) -> None:
        """Put a request in line; overlapping ones count against the broker's budget."""
        self.is_overlapping = overlaps
        if overlaps:
            self._requests.take(1)
        self.line.append(answer)

    def holds_back(self, overlaps: bool, limit: int) -> bool:
        """Return whether the next request has to wait for those in line."""
        return bool(self.line) and not (overlaps and self.is_overlapping and len(self.line) < limit)

    def take_answered(self) -> tuple[list[Reply], BaseException | None]:
        """Take from the front what is answered: the replies up to the first failure, and that failure."""
        replies: list[Reply] = []
        failure: BaseException | None = None
        while self.line:
            reply: Answer | Reply | None = self.line[0]
            if isinstance(reply, asyncio.Future):
                if not reply.done():
                    break
                if self.is_overlapping:
                    self._requests.release(1)
                error = asyncio.CancelledError() if reply.cancelled() else reply.exception()
                failure = failure or error
                reply = None if error else reply.result()
            self.line.popleft()
            if reply is not None and failure is None:
                replies.append(reply)
        return replies, failure

    def cancel(self) -> None:
        """Cancel what still runs."""
        for answer in self.line:
            if isinstance(answer, asyncio.Future):
                answer.cancel()
