"""Rebalances: commit offsets, call the listener, change the assignment.

Between two calls the application processes the records of the first one. They count as processed only when
it makes the second call, so only then may partitions be revoked and their offsets be committed. The
membership, which runs in the background, queues such steps (`RebalanceTaskQueue`) and waits; the next call
for records, or the one that is waiting for records, runs them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextvars import ContextVar
from typing import Any

from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.fetching.partition_state import PendingLookup
from ottla.client.consumer.membership.listener import Caller, RebalanceListener, WrongUse
from ottla.client.errors import ClientClosed, ClientError
from ottla.common.ids import TopicPartition
from ottla.common.tasks import cancel_and_wait
from ottla.protocol.errors import KafkaError

Step = Callable[[], Coroutine[Any, Any, None]]

_calling: ContextVar[asyncio.Task[Any] | None] = ContextVar("calling", default=None)
"""The step that is running, seen from the listener that it calls, in whichever thread."""


class RebalanceTaskQueue:
    """The steps that wait for the application's next call."""

    def __init__(self, on_pending: Callable[[], None]) -> None:
        self._on_pending = on_pending
        self._waiting: deque[tuple[Step, asyncio.Future[None]]] = deque()
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_pending(self) -> bool:
        """Whether a step is queued or running."""
        return bool(self._waiting) or self._running is not None

    async def submit(self, step: Step) -> None:
        """Run a step during the application's next call; return when it is done, or has failed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, done))
        self._on_pending()
        try:
            await done
        finally:
            if (step, done) in self._waiting:
                self._waiting.remove((step, done))

    @property
    def is_called_by_step(self) -> bool:
        """Whether the caller is a listener that the running step has called."""
        return self._running is not None and _calling.get() is self._running

    async def run(self, deadline: float | None = None) -> bool:
        """Run the queued steps and raise what they raise; return False if the deadline passes first.

        A step that is running then continues, and the next call waits for it.
        """
        if self.is_called_by_step:
            raise WrongUse("a rebalance listener cannot poll: the call that runs it would wait for itself")
        loop = asyncio.get_running_loop()
        while self.is_pending:
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
        """Cancel the running step."""
        self._is_closed = True
        if self._running is not None:
            await cancel_and_wait(self._running)
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
    """Changes the assignment for a membership (`GroupEvents`)."""

    def __init__(
        self,
        assignment: Assignment,
        steps: RebalanceTaskQueue,
        call: Caller,
        commit: Callable[[Partitions], Awaitable[None]] | None,
        *,
        on_change: Callable[[], None],
        on_error: Callable[[Exception, bool], None],
    ) -> None:
        self.listener: RebalanceListener | None = None
        self._assignment = assignment
        self._steps = steps
        self._call = call
        self.commit = commit
        """Commits the positions of revoked partitions; None without enable_auto_commit."""
        self._on_change = on_change
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._polling = 0
        self._last_polled = self._loop.time()

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return self._assignment.partitions

    @property
    def idle_ms(self) -> float:
        """The time since the application's last call for records ended; 0 during a call."""
        return 0.0 if self._polling else (self._loop.time() - self._last_polled) * 1000

    def count_poll(self, by: int) -> None:
        """Count the calls for records: 1 when one starts, -1 when it ends."""
        self._polling += by
        self._last_polled = self._loop.time()

    async def change(
        self, revoked: Partitions, assigned: Partitions, holds: Callable[[], bool] = lambda: True
    ) -> None:
        """Revoke partitions, then assign exactly `assigned`, if `holds` then still returns True."""

        async def step() -> None:
            if not holds():
                return
            if revoked:
                await self.revoke_now(revoked)
            if holds():
                added = frozenset(assigned) - self.owned
                self._assignment.replace(assigned, PendingLookup.COMMITTED)
                self._on_change()
                if self.listener is not None:
                    await self._call(self.listener.on_partitions_assigned, added)

        await self._steps.submit(step)

    async def revoke(self, partitions: Partitions, holds: Callable[[], bool]) -> None:
        """Revoke partitions; if `holds` returns False by then, they are lost instead."""
        await self._steps.submit(lambda: self.revoke_now(partitions) if holds() else self._lose(partitions))

    async def lose(self, partitions: Partitions) -> None:
        """Drop partitions that may be assigned to other members already."""
        await self._steps.submit(lambda: self._lose(partitions))

    async def _lose(self, partitions: Partitions) -> None:
        try:
            if self.listener is not None and partitions:
                await self._call(self.listener.on_partitions_lost, frozenset(partitions))
        finally:
            self._drop(partitions)

    async def revoke_now(self, partitions: Partitions) -> None:
        """Commit offsets and call the listener while the partitions are still assigned, then drop them."""
        try:
            if self.commit is not None:
                try:
                    await self.commit(partitions)
                except (KafkaError, ClientError) as error:
                    log.warning("could not commit offsets before a rebalance: %s", error)
            if self.listener is not None:
                await self._call(self.listener.on_partitions_revoked, frozenset(partitions))
        finally:
            self._drop(partitions)

    def report(self, error: Exception, *, is_fatal: bool) -> None:
        """Raise an error from the next call for records, or, if it is fatal, from every one."""
        self._on_error(error, is_fatal)

    def _drop(self, partitions: Partitions) -> None:
        self._assignment.replace(self.owned - frozenset(partitions), PendingLookup.COMMITTED)
        self._on_change()
