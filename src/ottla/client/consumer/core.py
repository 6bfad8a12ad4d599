"""What both faces of the consumer stand on: assignment, fetcher, positions and group, started and stopped.

It belongs to one event loop. Other threads may take from the collector, as direct.py does it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.direct import WaitingThreads
from ottla.client.consumer.fetching.collector import Collector
from ottla.client.consumer.fetching.fetcher import Fetcher
from ottla.client.consumer.fetching.leaders import Leaders
from ottla.client.consumer.fetching.partition_state import Chunk, Need, PartitionState
from ottla.client.consumer.fetching.positions import Positions
from ottla.client.consumer.fetching.record import Batch, ConsumerRecord, Decoder
from ottla.client.consumer.membership.group import LEAVE_WITHIN_S, Group
from ottla.client.consumer.membership.listener import Caller, RebalanceListener, WrongUse, call_here
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.subscription import Topics
from ottla.client.consumer.wakeups import WakeupEvent
from ottla.client.errors import ClientClosed
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition

# How a call for records goes: it raises what is wrong, lets partitions come and go, takes, and waits.
#
# What a call has returned counts as dealt with when the next one is made. A call that fails, or is
# cancelled, has returned nothing; what it should have done is left to the next one.

Records = dict[TopicPartition, list[ConsumerRecord]]
Taken = tuple[PartitionState, list[Batch], Chunk]
Some = TypeVar("Some", Records, list[Taken], ConsumerRecord | None)


class PollLoop:
    """The part of a consumer that its calls for records go through."""

    assignment: Assignment
    collector: Collector
    group: Group | None

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting_threads = WaitingThreads()
        self._news = WakeupEvent(self.loop)
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


log = logging.getLogger(__name__)


class ConsumerCore(PollLoop):
    """A consumer without a face."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: Cluster | None = None,
        clock: Clock | None = None,
        call: Caller = call_here,
    ) -> None:
        super().__init__()
        self.options = options
        self.clock = clock or SystemClock()
        self.cluster = cluster or Cluster(options=options, is_patient=True)
        self._owns_cluster = cluster is None
        self._thread = threading.get_ident()
        resets = options.auto_offset_reset != "none"
        self.assignment = Assignment(on_filled=self._wake_waiting)
        self.collector = Collector(
            self.assignment,
            Decoder(options.key_deserializer, options.value_deserializer),
            check_crcs=options.check_crcs,
            resets=resets,
            on_taken=self._taken,
        )
        self.group = self._group(call)
        self._leaders = Leaders(
            self.cluster, self.assignment, resets=resets, on_need=lambda: self.positions.wake()
        )
        self.fetcher = Fetcher(self.cluster, options, self.assignment, self._leaders, on_problem=self._report)
        self.positions = Positions(
            self.cluster,
            options,
            self.assignment,
            self._leaders,
            self.group.commits if self.group else None,
            self.clock,
            on_found=self.fetcher.wake,
            on_problem=self._report,
        )
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    def _group(self, call: Caller) -> Group | None:
        if self.options.group_id is None:
            return None
        return Group(
            self.options.group_id,
            self.cluster,
            self.options,
            self.assignment,
            call,
            on_change=self.kick,
            on_turn=self._hold,
            on_error=self._report,
        )

    async def start(self) -> None:
        """Connect if a broker is up, and begin to fetch in the background."""
        if self._owns_cluster:
            await self.cluster.start_lazily()
        self._spawn("fetcher", self.fetcher.run())
        self._spawn("positions", self.positions.run())
        if self.group is not None:
            self.group.queue.start_clock()
        if self.options.topics:
            self.subscribe(self.options.topics)

    async def close(self, *, after_error: bool = False) -> None:
        """Commit if that is wanted, leave the group, disconnect.

        After an error in the application, what the last call returned has not been dealt with: then nothing
        is committed.
        """
        if self._is_closing:
            return
        self.check_closing()
        self._is_closing = True
        self._hold()
        try:
            if self.group is not None:
                if after_error and self._has_handed_out:
                    self.group.commit_no_more()
                await self.group.queue.finish(LEAVE_WITHIN_S)
                await self.group.leave()
        finally:
            await self.stop()

    def check_closing(self) -> None:
        """Raise if it cannot be closed by the caller, who is waited for."""
        if self.group is not None and self.group.turns.are_inside:
            raise WrongUse("a rebalance listener cannot close its consumer: whoever asks for records can")

    async def abandon(self) -> None:
        """Leave the group, commit nothing, tell no listener, disconnect."""
        if self.group is not None:
            self.group.rebalances.listener = None
        self._has_handed_out = True
        await self.close(after_error=True)

    async def stop(self) -> None:
        """Disconnect, and do nothing else any more."""
        self._is_closing = self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            self._news.close()
            if self.group is not None:
                await self.group.close()
        finally:  # though whoever closes us be cancelled
            if self._owns_cluster:
                await self.cluster.close()

    # What is read.

    def subscribe(
        self,
        names: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics together with the group; takes the place of what was subscribed to before."""
        self._check_open()
        group = self.need_group("subscribing")
        if group.topics is None and self.assignment.partitions:
            raise WrongUse("partitions were assigned by hand: unsubscribe first")
        topics = Topics(self.cluster, names, pattern)
        topics.creates = self.options.allow_auto_create_topics
        group.rebalances.listener = listener
        self._leaders.is_strict = False
        group.subscribe(topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group that shares them."""
        self._check_open()
        if self.group is not None and self.group.topics is not None:
            raise WrongUse("the consumer has subscribed to topics: unsubscribe first")
        self._leaders.is_strict = True
        self.assignment.replace((TopicPartition(*each) for each in partitions), Need.COMMITTED)
        self._hold()
        self.kick()

    async def unsubscribe(self) -> None:
        """Leave the group, or give up the partitions that were assigned by hand."""
        self._check_open()
        if self.group is not None:
            await self.group.leave()
        self.assignment.replace((), Need.COMMITTED)
        self._hold()

    def kick(self) -> None:
        """Look again at what is to be found out and to be fetched."""
        self.positions.wake()
        self.fetcher.wake()

    # Records.

    async def take(
        self, timeout_s: float | None, most: int | None, only: frozenset[TopicPartition] | None = None
    ) -> Records:
        """Return the next records; wait for some, but not longer than the timeout."""
        most = self.options.max_poll_records if most is None else most
        return await self._ask(timeout_s, lambda: self.collector.take(most, only), {})

    async def take_one(
        self, timeout_s: float | None, only: frozenset[TopicPartition] | None = None
    ) -> ConsumerRecord | None:
        """Return the next record; None if there is none within the timeout."""
        if only is None:
            if not self.collector.is_held and (record := self.collector.take_one()) is not None:
                return record
            return await self._ask(timeout_s, self.collector.take_one, None)
        for records in (await self.take(timeout_s, 1, only)).values():
            return records[0]
        return None

    async def take_batches(self, timeout_s: float | None, most: int) -> list[Taken]:
        """Return batches as they came; the caller moves the positions."""
        return await self._ask(timeout_s, lambda: self.collector.take_batches(most), [])

    async def position(self, partition: TopicPartition) -> int:
        """Return the next offset to be handed out; find it out if it is not known yet."""
        state = self.assignment[partition]
        self.positions.wake()
        while state.need is not Need.NOTHING:
            if state.has_failed:
                self.collector.take(1, frozenset({partition}))
            self._raise_problem()
            await self.positions.found()
        return state.position

    def need_group(self, for_what: str) -> Group:
        """Return the group, if there is one; else say that it is needed."""
        self._check_open()
        if self.group is None:
            raise WrongUse(f"{for_what} needs a group_id")
        return self.group

    # Trouble.

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")

    def _taken(self, needs_position: bool) -> None:
        """Look again at what can be fetched, if that stopped for want of room, or of a position."""
        if not (needs_position or self.fetcher.is_short_of_room):
            return
        if threading.get_ident() == self._thread:
            self.kick()
        else:
            with suppress(RuntimeError):  # the consumer was closed in the meantime
                self.loop.call_soon_threadsafe(self.kick)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work, name=f"ottla consumer {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """Notice that a background task has ended: it failed, or there is nothing more it can do."""
        if self._tasks.get(name) is task:
            del self._tasks[name]
        self.collector.is_held = True
        if not task.cancelled() and task.exception() is not None:
            log.error("the consumer's %s failed", name, exc_info=task.exception())
            error = task.exception()
            if isinstance(error, Exception):
                self._report(error, is_fatal=True)
