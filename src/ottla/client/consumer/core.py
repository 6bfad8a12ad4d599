"""What both faces of the consumer stand on: assignment, fetcher, positions and group, started and stopped.

It belongs to one event loop. Other threads may take from the collector, as direct.py does it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.calls import Calls, Records, Taken
from ottla.client.consumer.collector import Collector
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.group import LEAVE_WITHIN_S, Group
from ottla.client.consumer.leaders import Leaders
from ottla.client.consumer.listener import Caller, RebalanceListener, call_here
from ottla.client.consumer.mistakes import WrongUse
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.partition_state import Need
from ottla.client.consumer.positions import Positions
from ottla.client.consumer.record import ConsumerRecord, Decoder
from ottla.client.consumer.subscription import Topics
from ottla.client.errors import ClientClosed
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition

log = logging.getLogger(__name__)


class ConsumerCore(Calls):
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
