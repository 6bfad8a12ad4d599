"""The consumer behind AsyncConsumer and Consumer: assignment, fetcher, positions and group.

All of it runs on one event loop. Other threads may take records from the collector: see direct.py.

A call for records (`take`, `take_one`, `take_batches`) raises pending errors, runs pending rebalance steps
and commits, takes records that were fetched, and waits for some if there are none. Records count as
processed when the next call is made. A call that fails or is cancelled has returned nothing; the steps that
it did not run are left to the next one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.fetching.collector import Collector
from ottla.client.consumer.fetching.fetcher import Fetcher
from ottla.client.consumer.fetching.leaders import Leaders
from ottla.client.consumer.fetching.partition_state import Chunk, PartitionState, PendingLookup
from ottla.client.consumer.fetching.positions import Positions
from ottla.client.consumer.fetching.record import Batch, ConsumerRecord, Decoder
from ottla.client.consumer.membership.listener import Caller, RebalanceListener, WrongUse, call_here
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.subscription import Topics
from ottla.client.consumer.waiting import WaitingThreads, WakeupEvent
from ottla.client.errors import ClientClosed
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.membership.group import Group

log = logging.getLogger(__name__)

Records = dict[TopicPartition, list[ConsumerRecord]]
Taken = tuple[PartitionState, list[Batch], Chunk]
Result = TypeVar("Result", Records, list[Taken], ConsumerRecord | None)


class ConsumerCore:
    """A consumer on one event loop; AsyncConsumer and Consumer are its public faces."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: Cluster | None = None,
        clock: Clock | None = None,
        call: Caller = call_here,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting_threads = WaitingThreads()
        self._wakeup = WakeupEvent(self.loop)
        self._error: Exception | None = None
        self._is_fatal = False
        self._has_returned_records = False
        """Whether the application may be processing the records that the last call returned."""
        self._is_closing = False
        self.options = options
        self.clock = clock or SystemClock()
        self.cluster = cluster or Cluster(options=options, waits_for_brokers=True)
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
        from ottla.client.consumer.membership.group import Group  # not for readers without a group

        return Group(
            self.options.group_id,
            self.cluster,
            self.options,
            self.assignment,
            call,
            on_change=self.wake,
            on_pending_step=self._hold,
            on_error=self._report,
        )

    async def start(self) -> None:
        """Connect if a broker is up, and start to fetch in the background."""
        if self._owns_cluster:
            await self.cluster.start_lazily()
        self._spawn("fetcher", self.fetcher.run())
        self._spawn("positions", self.positions.run())
        if self.group is not None:
            self.group.queue.start_timer()
        if self.options.topics:
            self.subscribe(self.options.topics)

    async def close(self, *, after_error: bool = False) -> None:
        """Commit (with enable_auto_commit), leave the group, disconnect.

        After an error in the application the last records are not processed: nothing is committed.
        """
        if self._is_closing:
            return
        self.check_closing()
        self._is_closing = True
        self._hold()
        try:
            if self.group is not None:
                if after_error and self._has_returned_records:
                    self.group.disable_commits()
                await self.group.queue.finish(self.group.LEAVE_TIMEOUT_S)
                await self.group.leave()
        finally:
            await self.stop()

    def check_closing(self) -> None:
        """Raise WrongUse if the caller is a rebalance listener, which closing would wait for."""
        if self.group is not None and self.group.steps.is_called_by_step:
            raise WrongUse("a rebalance listener cannot close its consumer: close it outside of the listener")

    async def abandon(self) -> None:
        """Leave the group and disconnect, without a commit and without calling the listener."""
        if self.group is not None:
            self.group.rebalances.listener = None
        self._has_returned_records = True
        await self.close(after_error=True)

    async def stop(self) -> None:
        """Cancel the background tasks and disconnect."""
        self._is_closing = self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            self._wakeup.close()
            if self.group is not None:
                await self.group.close()
        finally:  # even if the caller is cancelled
            if self._owns_cluster:
                await self.cluster.close()

    # Subscription.

    def subscribe(
        self,
        names: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics as a member of the group; replaces an earlier subscription."""
        self._check_open()
        group = self.need_group("subscribing")
        if group.topics is None and self.assignment.partitions:
            raise WrongUse("partitions were assigned manually: unsubscribe first")
        topics = Topics(self.cluster, names, pattern)
        topics.creates = self.options.allow_auto_create_topics
        group.rebalances.listener = listener
        self._leaders.is_strict = False
        group.subscribe(topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without joining the group."""
        self._check_open()
        if self.group is not None and self.group.topics is not None:
            raise WrongUse("the consumer has subscribed to topics: unsubscribe first")
        self._leaders.is_strict = True
        self.assignment.replace((TopicPartition(*each) for each in partitions), PendingLookup.COMMITTED)
        self._hold()
        self.wake()

    async def unsubscribe(self) -> None:
        """Leave the group, or drop the partitions that were assigned manually."""
        self._check_open()
        if self.group is not None:
            await self.group.leave()
        self.assignment.replace((), PendingLookup.COMMITTED)
        self._hold()

    def wake(self) -> None:
        """Wake the tasks that look up positions and fetch."""
        self.positions.wake()
        self.fetcher.wake()

    # Records.

    async def take(
        self, timeout_s: float | None, max_records: int | None, only: frozenset[TopicPartition] | None = None
    ) -> Records:
        """Return the next records; wait for some until the timeout."""
        max_records = self.options.max_poll_records if max_records is None else max_records
        return await self._poll(timeout_s, lambda: self.collector.take(max_records, only), {})

    async def take_one(
        self, timeout_s: float | None, only: frozenset[TopicPartition] | None = None
    ) -> ConsumerRecord | None:
        """Return the next record; None if there is none within the timeout."""
        if only is None:
            if not self.collector.is_held and (record := self.collector.take_one()) is not None:
                return record
            return await self._poll(timeout_s, self.collector.take_one, None)
        for records in (await self.take(timeout_s, 1, only)).values():
            return records[0]
        return None

    async def take_batches(self, timeout_s: float | None, max_records: int) -> list[Taken]:
        """Return undecoded batches; the caller advances the positions."""
        return await self._poll(timeout_s, lambda: self.collector.take_batches(max_records), [])

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record; wait until it is known."""
        state = self.assignment[partition]
        self.positions.wake()
        while state.need is not PendingLookup.NOTHING:
            if state.has_failed:
                self.collector.take(1, frozenset({partition}))
            self._raise_error()
            await self.positions.found()
        return state.position

    async def _poll(self, timeout_s: float | None, take: Callable[[], Result], found: Result) -> Result:
        """Take records; wait for some until the timeout. `found` is the empty result."""
        self._count_poll(1)
        self._has_returned_records = False
        deadline = None if timeout_s is None else self.loop.time() + timeout_s
        try:
            has_other_work = self.collector.is_held or self.group is not None or self.assignment.ready_count
            if has_other_work and not await self._before_poll(deadline):
                return found
            found = take()
            while not found and await self._wait_for_records(deadline):
                found = take()
            self._has_returned_records = bool(found)
        except BaseException:
            self.collector.is_held = True  # the next call runs the steps that this one did not
            raise
        finally:
            self._count_poll(-1)
        return found

    async def _before_poll(self, deadline: float | None) -> bool:
        """Raise errors, join the group, commit, run rebalance steps; return False if the deadline passed."""
        self._check_not_closing()
        self.collector.is_held = False
        self._raise_error()
        if self.group is not None:
            self.group.before_poll()
            if self.group.steps.is_pending and not await self._run_rebalance_steps(self.group, deadline):
                return False
        if self.assignment.ready_count:
            await asyncio.sleep(0)  # let the fetcher run, even if the application polls in a tight loop
        return True

    async def _run_rebalance_steps(self, group: Group, deadline: float | None) -> bool:
        """Run pending rebalance steps; return False, and return no records, if the deadline passed."""
        if await group.steps.run(deadline):
            return True
        self.collector.is_held = True
        return False

    async def _wait_for_records(self, deadline: float | None) -> bool:
        """Wait until there may be records; return False if the deadline passed."""
        if not self.assignment.version and (self.group is None or self.group.topics is None):
            raise WrongUse("there is nothing to read: subscribe to topics, or assign partitions, first")
        if not await self._wakeup.wait(deadline):
            return False
        self._check_not_closing()
        self._raise_error()
        if self.group is not None and self.group.steps.is_pending:
            return await self._run_rebalance_steps(self.group, deadline)
        return True

    def _count_poll(self, by: int) -> None:
        if self.group is not None:
            self.group.rebalances.count_poll(by)

    def _report(self, error: Exception, is_fatal: bool = False) -> None:
        if self._error is None or not self._is_fatal:
            self._error, self._is_fatal = error, is_fatal
        self._hold()

    def _hold(self) -> None:
        """Make the next call do more than return fetched records."""
        self.collector.is_held = True
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        """Wake the calls that wait for records."""
        self._wakeup.set()
        self.waiting_threads.wake()

    def _raise_error(self) -> None:
        error = self._error
        if error is not None:
            if not self._is_fatal:
                self._error = None
            raise error

    def _check_not_closing(self) -> None:
        if self._is_closing:
            raise ClientClosed("the consumer is closed")

    def need_group(self, for_what: str) -> Group:
        """Return the group; raise WrongUse if there is no group_id."""
        self._check_open()
        if self.group is None:
            raise WrongUse(f"{for_what} needs a group_id")
        return self.group

    # Background tasks.

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")

    def _taken(self, needs_position: bool) -> None:
        """Wake the fetcher if it stopped for lack of buffer space or of a position."""
        if not (needs_position or self.fetcher.is_out_of_space):
            return
        if threading.get_ident() == self._thread:
            self.wake()
        else:
            with suppress(RuntimeError):  # the consumer was closed in the meantime
                self.loop.call_soon_threadsafe(self.wake)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work, name=f"ottla consumer {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """Report the error of a background task that failed."""
        if self._tasks.get(name) is task:
            del self._tasks[name]
        self.collector.is_held = True
        if not task.cancelled() and task.exception() is not None:
            log.error("the consumer's %s failed", name, exc_info=task.exception())
            error = task.exception()
            if isinstance(error, Exception):
                self._report(error, is_fatal=True)
