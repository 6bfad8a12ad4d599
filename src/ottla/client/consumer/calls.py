"""How a call for records goes: it raises what is wrong, lets partitions come and go, takes, and waits.

What a call has returned counts as dealt with when the next one is made. A call that fails, or is cancelled,
has returned nothing; what it should have done is left to the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.collector import Collector
from ottla.client.consumer.direct import WaitingThreads
from ottla.client.consumer.group import Group
from ottla.client.consumer.mistakes import WrongUse
from ottla.client.consumer.news import News
from ottla.client.consumer.partition_state import Chunk, PartitionState
from ottla.client.consumer.record import Batch, ConsumerRecord
from ottla.client.errors import ClientClosed
from ottla.common.ids import TopicPartition

Records = dict[TopicPartition, list[ConsumerRecord]]
Taken = tuple[PartitionState, list[Batch], Chunk]
Some = TypeVar("Some", Records, list[Taken], ConsumerRecord | None)


class Calls:
    """The part of a consumer that its calls for records go through."""

    assignment: Assignment
    collector: Collector
    group: Group | None

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting_threads = WaitingThreads()
        self._news = News(self.loop)
        self._problem: Exception | None = None
        self._is_fatal = False
        self._has_handed_out = False
        """Whether the application may be at work on what the last call has returned."""
        self._is_closing = False

    async def _ask(self, timeout_s: float | None, take: Callable[[], Some], found: Some) -> Some:
        """Take until there is something, or the time is over: then it is what was `found` before, nothing."""
        self._asks(1)
        self._has_handed_out = False
        deadline = None if timeout_s is None else self.loop.time() + timeout_s
        try:
            has_more_to_do = self.collector.is_held or self.group is not None or self.assignment.line_length
            if has_more_to_do and not await self._attend(deadline):
                return found
            found = take()
            while not found and await self._wait_for_news(deadline):
                found = take()
            self._has_handed_out = bool(found)
        except BaseException:
            self.collector.is_held = True  # what was to be done is not done: the next call sees to it
            raise
        finally:
            self._asks(-1)
        return found

    async def _attend(self, deadline: float | None) -> bool:
        """Do what is to be done while the application asks for records; return whether it is done in time."""
        self._check_asking()
        self.collector.is_held = False
        self._raise_problem()
        if self.group is not None:
            self.group.attend()
            if self.group.turns.are_due and not await self._take_turns(self.group, deadline):
                return False
        if self.assignment.line_length:
            await asyncio.sleep(0)  # whoever takes in a tight loop must let the fetcher have its turn
        return True

    async def _take_turns(self, group: Group, deadline: float | None) -> bool:
        """Let partitions come and go; return whether that is done in time. If not, nothing is handed out."""
        if await group.turns.run(deadline):
            return True
        self.collector.is_held = True
        return False

    async def _wait_for_news(self, deadline: float | None) -> bool:
        """Wait until there may be records; return False if there are none in time."""
        if not self.assignment.version and (self.group is None or self.group.topics is None):
            raise WrongUse("there is nothing to read: subscribe to topics, or assign partitions, first")
        if not await self._news.wait(deadline):
            return False
        self._check_asking()
        self._raise_problem()
        if self.group is not None and self.group.turns.are_due:
            return await self._take_turns(self.group, deadline)
        return True

    def _asks(self, by: int) -> None:
        if self.group is not None:
            self.group.rebalances.asks(by)

    def _report(self, error: Exception, is_fatal: bool = False) -> None:
        if self._problem is None or not self._is_fatal:
            self._problem, self._is_fatal = error, is_fatal
        self._hold()

    def _hold(self) -> None:
        """Have the next call do more than to hand out records."""
        self.collector.is_held = True
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        """Wake the calls that wait for records."""
        self._news.set()
        self.waiting_threads.wake()

    def _raise_problem(self) -> None:
        problem = self._problem
        if problem is not None:
            if not self._is_fatal:
                self._problem = None
            raise problem

    def _check_asking(self) -> None:
        if self._is_closing:
            raise ClientClosed("the consumer is closed")
