"""Looks up the positions of partitions.

    committed   the group's committed offset (OffsetFetch); without one, a reset
    reset       the offset of the beginning, of the end, or of a time (ListOffsets)
    validation  after a leader change: does the new leader's log still have the position (KIP-320)?

A leader whose log ends before the position has lost records that were read (an unclean election). With
`auto_offset_reset`, reading continues where the logs diverge; without, LogTruncated is raised.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster, is_retriable
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.fetching.leaders import PASSING, Leaders
from ottla.client.consumer.fetching.partition_state import PartitionState, PendingLookup
from ottla.client.consumer.options import ConsumerOptions, duration_ms
from ottla.client.consumer.waiting import wait_for
from ottla.client.errors import ClientClosed, ClientError
from ottla.client.offsets import EARLIEST, LATEST, EpochEnd, ask_epoch_ends, ask_offsets
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from ottla.client.consumer.membership.commits import Commits

log = logging.getLogger(__name__)

MAX_WAIT_S = 1.0


class NoOffset(ClientError):
    """There is no committed offset, and `auto_offset_reset` is `none`."""


class LogTruncated(ClientError):
    """The log was truncated below the position; `seek` to choose where to continue."""

    def __init__(self, partition: TopicPartition, position: int, diverges_at: int | None) -> None:
        where = "" if diverges_at is None else f"; the logs part at offset {diverges_at}"
        super().__init__(
            f"{partition} has been cut off below offset {position}, which was read already{where}"
        )
        self.partition = partition
        self.position = position
        self.diverges_at = diverges_at


class Positions:
    """Looks up the position of every assigned partition."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        assignment: Assignment,
        leaders: Leaders,
        commits: Commits | None,
        clock: Clock,
        *,
        on_found: Callable[[], None],
        on_problem: Callable[[Exception], None],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._assignment = assignment
        self._leaders = leaders
        self._commits = commits
        self._clock = clock
        self._on_found = on_found
        self._on_problem = on_problem
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._found = asyncio.Event()

    def wake(self) -> None:
        """Check again which positions must be looked up."""
        self._wake.set()

    async def found(self) -> None:
        """Wait until a position has been looked up."""
        await self._found.wait()

    async def run(self) -> None:
        """Find positions until cancelled."""
        while True:
            self._wake.clear()
            rest_s = await self._look()
            await wait_for(self._wake, rest_s)

    async def _look(self) -> float | None:
        now = self._loop.time()
        open_ones = [s for s in self._assignment if s.need is not PendingLookup.NOTHING and not s.has_failed]
        due = [state for state in open_ones if state.retry_at <= now]
        if due:
            by_need = defaultdict(list)
            for state in due:
                by_need[state.need].append(state)
            for need, find in (
                (PendingLookup.COMMITTED, self._find_committed),
                (PendingLookup.VALIDATION, self._validate),
                (PendingLookup.RESET, self._reset),
            ):
                if by_need[need]:
                    await self._try(find, by_need[need])
            self._on_found()
            open_ones = [
                s for s in self._assignment if s.need is not PendingLookup.NOTHING and not s.has_failed
            ]
        self._found.set()
        self._found = asyncio.Event()
        if not open_ones:
            return None
        return max(0.001, min(MAX_WAIT_S, min(s.retry_at for s in open_ones) - self._loop.time()))

    async def _try(
        self, find: Callable[[list[PartitionState]], Awaitable[None]], states: list[PartitionState]
    ) -> None:
        try:
            await find(states)
        except ClientClosed:
            return
        except (ClientError, KafkaError) as error:
            for state in states:
                self._put_off(state)
            if is_retriable(error):
                log.warning("cannot look up positions, retrying: %s", error)
                for topic in {state.partition.topic for state in states}:
                    self._leaders.mark_stale(topic)  # it may have another leader now
            else:
                self._on_problem(error)

    def _put_off(self, state: PartitionState) -> None:
        state.failures += 1
        state.retry_at = self._loop.time() + self._cluster.backoff.pause_ms(state.failures) / 1000

    async def _find_committed(self, states: list[PartitionState]) -> None:
        versions = {state: state.version for state in states}
        found = {}
        if self._commits is not None:
            found = await self._commits.fetch([state.partition for state in states])
        with self._assignment.lock:
            for state in states:
                if state.version != versions[state] or state.need is not PendingLookup.COMMITTED:
                    continue  # the application has called seek meanwhile
                committed = found.get(state.partition)
                if committed is None:
                    state.require(PendingLookup.RESET)
                else:
                    state.seek(committed.offset, committed.leader_epoch)
        self.wake()

    async def _reset(self, states: list[PartitionState]) -> None:
        wanted: dict[PartitionState, tuple[int, int]] = {}
        """To which time, and at which version: the application may seek while this waits."""
        for state in states:
            version, time = state.version, self._time_to_reset_to(state)
            if time is None:
                with self._assignment.lock:
                    state.fail(
                        NoOffset(f"{state.partition} has no committed offset, and auto_offset_reset is none")
                    )
                self._assignment.enqueue_ready(state)
            else:
                wanted[state] = time, version
        for node_id, led in (await self._by_leader(wanted)).items():
            await self._try(partial(self._reset_at, node_id, wanted), led)

    def _time_to_reset_to(self, state: PartitionState) -> int | None:
        if state.reset_to is not None:
            return state.reset_to
        policy = self._options.auto_offset_reset
        back_ms = duration_ms(policy)
        if back_ms is not None:
            return self._clock.wall_ms() - back_ms
        return {"earliest": EARLIEST, "latest": LATEST}.get(policy)

    async def _reset_at(
        self, node_id: int, wanted: dict[PartitionState, tuple[int, int]], led: list[PartitionState]
    ) -> None:
        connection = await self._cluster.broker(node_id)
        times = {state.partition: (wanted[state][0], state.seen_epoch) for state in led}
        found = await ask_offsets(
            connection, times, int(self._options.reads_committed), self._options.request_timeout_ms
        )
        for state in led:
            answer = found.get(state.partition)
            if answer is None or state.version != wanted[state][1] or state.need is not PendingLookup.RESET:
                continue
            if isinstance(answer, KafkaError):
                self._refused(state, answer)
            elif answer.offset < 0:
                state.reset_to = LATEST  # there is no record at or after that time
                self.wake()
            else:
                with self._assignment.lock:
                    state.seek(answer.offset)
                    state.failures = 0

    async def _validate(self, states: list[PartitionState]) -> None:
        for node_id, led in (await self._by_leader(states)).items():
            await self._try(partial(self._validate_at, node_id), led)

    async def _validate_at(self, node_id: int, led: list[PartitionState]) -> None:
        versions = {state: state.version for state in led}
        connection = await self._cluster.broker(node_id)
        asked = {state.partition: (state.seen_epoch, state.epoch) for state in led}
        found: dict[TopicPartition, EpochEnd | KafkaError] = {}
        try:
            found = await ask_epoch_ends(connection, asked, self._options.request_timeout_ms)
        except UnsupportedVersion:  # an old broker cannot validate it
            found = {state.partition: EpochEnd(state.epoch, state.position) for state in led}
        for state in led:
            answer = found.get(state.partition)
            if (
                answer is None
                or state.version != versions[state]
                or state.need is not PendingLookup.VALIDATION
            ):
                continue
            if isinstance(answer, KafkaError):
                self._refused(state, answer)
            else:
                self._judge(state, answer)

    def _judge(self, state: PartitionState, end: EpochEnd) -> None:
        """Continue, go back to where the logs diverge, or raise LogTruncated."""
        with self._assignment.lock:
            state.failures = 0
            if end.is_known and end.end_offset >= state.position:
                state.need = PendingLookup.NOTHING
                return
            diverges_at = end.end_offset if end.is_known else None
            truncated = LogTruncated(state.partition, state.position, diverges_at)
            if self._options.auto_offset_reset == "none":
                state.need = PendingLookup.NOTHING
                state.drop_fetched()
                state.fail(truncated)
            elif diverges_at is None:
                log.warning("%s; resetting as auto_offset_reset says", truncated)
                state.require(PendingLookup.RESET)
                self.wake()
            else:
                log.warning("%s; continuing from there", truncated)
                state.seek(diverges_at)
                state.epoch = end.leader_epoch
        if state.has_failed:
            self._assignment.enqueue_ready(state)

    def _refused(self, state: PartitionState, error: KafkaError) -> None:
        self._put_off(state)
        if is_retriable(error) or error.code in PASSING:
            self._leaders.mark_stale(state.partition.topic)
        else:
            with self._assignment.lock:
                state.fail(error)
            self._assignment.enqueue_ready(state)

    async def _by_leader(self, states: Collection[PartitionState]) -> dict[int, list[PartitionState]]:
        """Group partitions by leader; postpone those without one."""
        found, unknown = await self._leaders.by_leader(states)
        for state in unknown:
            self._put_off(state)
        return found
