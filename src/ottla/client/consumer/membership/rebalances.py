"""What a rebalance does to a consumer: offsets are committed, the listener is told, partitions change.

Every step runs while the application asks for records (turns.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextvars import ContextVar
from typing import Any

from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.fetching.partition_state import Need
from ottla.client.consumer.membership.listener import Caller, RebalanceListener, WrongUse
from ottla.client.errors import ClientClosed, ClientError
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError

# What has to happen while the application asks for records, and at no other time.
#
# Between two calls the application works on what it was given. Only when it comes back are those records
# dealt with, so only then may partitions be taken away and their offsets be committed. A membership that
# has to do so hands over a step and waits; the next call (or the one that is waiting for records) runs it.

Step = Callable[[], Coroutine[Any, Any, None]]

_calling: ContextVar[asyncio.Task[Any] | None] = ContextVar("calling", default=None)
"""The step on whose behalf something is called: a listener, in whichever thread, and what it calls."""


class RebalanceTaskQueue:
    """The steps that wait for the application."""

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self._on_wait = on_wait
        self._waiting: deque[tuple[Step, asyncio.Future[None]]] = deque()
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def are_due(self) -> bool:
        """Whether a step waits, or is under way."""
        return bool(self._waiting) or self._running is not None

    async def take(self, step: Step) -> None:
        """Have a step run when the application asks for records; return when it is done, or has failed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, done))
        self._on_wait()
        try:
            await done
        finally:
            if (step, done) in self._waiting:
                self._waiting.remove((step, done))

    @property
    def are_inside(self) -> bool:
        """Whether the caller is a listener that the step under way has called."""
        return self._running is not None and _calling.get() is self._running

    async def run(self, deadline: float | None = None) -> bool:
        """Run the steps that wait; raise what they raise. Called by whoever asks for records.

        Return whether all are done by the deadline. One that is under way goes on, and the next call waits.
        """
        if self.are_inside:
            raise WrongUse("a rebalance listener cannot ask for records: the call that does waits for it")
        loop = asyncio.get_running_loop()
        while self.are_due:
            if self._running is None:
                step, done = self._waiting.popleft()
                self._running = loop.create_task(_call(step), name="ottla rebalance")
                self._running.add_done_callback(lambda _, done=done: _finish(done))  # type: ignore[misc]
            task = self._running
            left_s = None if deadline is None else max(deadline - loop.time(), 0)
            await asyncio.wait([task], timeout=left_s)
            if not task.done():
                return False
            if self._running is task:
                self._running = None
            if task.cancelled() and self._is_closed:
                raise ClientClosed("the consumer is closed")
            task.result()
        return True

    async def close(self) -> None:
        """Give up what is under way."""
        self._is_closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None


async def _call(step: Step) -> None:
    _calling.set(asyncio.current_task())
    await step()


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


log = logging.getLogger(__name__)

Partitions = Collection[TopicPartition]


class Rebalances:
    """The side of the consumer that a membership talks to (`GroupEvents`)."""

    def __init__(
        self,
        assignment: Assignment,
        turns: RebalanceTaskQueue,
        call: Caller,
        commit: Callable[[Partitions], Awaitable[None]] | None,
        *,
        on_change: Callable[[], None],
        on_error: Callable[[Exception, bool], None],
    ) -> None:
        self.listener: RebalanceListener | None = None
        self._assignment = assignment
        self._turns = turns
        self._call = call
        self.commit = commit
        """Commits the positions of partitions that are given up; None if the application does that."""
        self._on_change = on_change
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._asking = 0
        self._last_asked = self._loop.time()

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return self._assignment.partitions

    @property
    def idle_ms(self) -> float:
        """For how long the application has not asked for records; 0 while it does."""
        return 0.0 if self._asking else (self._loop.time() - self._last_asked) * 1000

    def asks(self, by: int) -> None:
        """Count who asks for records: 1 when somebody comes, -1 when they leave."""
        self._asking += by
        self._last_asked = self._loop.time()

    async def change(
        self, revoked: Partitions, assigned: Partitions, holds: Callable[[], bool] = lambda: True
    ) -> None:
        """Give up some partitions, then read exactly `assigned`, if that still holds by then."""

        async def step() -> None:
            if not holds():
                return
            if revoked:
                await self.give_up(revoked)
            if holds():
                added = frozenset(assigned) - self.owned
                self._assignment.replace(assigned, Need.COMMITTED)
                self._on_change()
                if self.listener is not None:
                    await self._call(self.listener.on_partitions_assigned, added)

        await self._turns.take(step)

    async def revoke(self, partitions: Partitions, holds: Callable[[], bool]) -> None:
        """Give up partitions; if it does not hold any more by then that they are ours, they are lost."""
        await self._turns.take(lambda: self.give_up(partitions) if holds() else self._lose(partitions))

    async def lose(self, partitions: Partitions) -> None:
        """Give up partitions that others may read already."""
        await self._turns.take(lambda: self._lose(partitions))

    async def _lose(self, partitions: Partitions) -> None:
        try:
            if self.listener is not None and partitions:
                await self._call(self.listener.on_partitions_lost, frozenset(partitions))
        finally:
            self._drop(partitions)

    async def give_up(self, partitions: Partitions) -> None:
        """Commit and tell the listener, while the partitions are still ours; then stop reading them."""
        try:
            if self.commit is not None:
                try:
                    await self.commit(partitions)
                except (KafkaError, ClientError) as error:
                    log.warning("offsets were not committed before a rebalance: %s", error)
            if self.listener is not None:
                await self._call(self.listener.on_partitions_revoked, frozenset(partitions))
        finally:
            self._drop(partitions)

    def report(self, error: Exception, *, is_fatal: bool) -> None:
        """Let the application know of an error: once, or every time that it asks for records."""
        self._on_error(error, is_fatal)

    def _drop(self, partitions: Partitions) -> None:
        self._assignment.replace(self.owned - frozenset(partitions), Need.COMMITTED)
        self._on_change()
