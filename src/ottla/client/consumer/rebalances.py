"""What a rebalance does to a consumer: offsets are committed, the listener is told, partitions change.

Every step runs while the application asks for records (turns.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.listener import Caller, RebalanceListener
from ottla.client.consumer.partition_state import Need
from ottla.client.consumer.turns import Turns
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError

log = logging.getLogger(__name__)

Partitions = Collection[TopicPartition]


class Rebalances:
    """The side of the consumer that a membership talks to (`GroupEvents`)."""

    def __init__(
        self,
        assignment: Assignment,
        turns: Turns,
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
