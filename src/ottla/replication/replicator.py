"""What this broker's replicas do together: follow other leaders, and keep the ISRs of what is led here.

It has one fetcher for each leader that something is followed of, one queue of ISR changes for the controller,
and one clock that looks for followers that fell behind and writes the high watermarks down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Protocol

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.log.flusher import Flusher
from ottla.log.log_directory import LogDirectory
from ottla.metadata.entities import IsrChange, PartitionImage
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import KafkaError
from ottla.replication.backlog import BrokerBacklog
from ottla.replication.follower import FollowerState
from ottla.replication.leader import LeaderState
from ottla.replication.partition import Partition
from ottla.replication.replica_fetcher import ReplicaFetcher
from ottla.replication.throttle import Rate
from ottla.wire.peers import Peers

# Carries proposed in-sync replicas to the controller: all that have gathered in one request.
#
# One request is under way at a time. What cannot be decided now (no controller, no answer) is asked again:
# a leader keeps to the maximal ISR until it knows.

log = logging.getLogger(__name__)

RETRY_MS = 100
MOST_AT_ONCE = 1_000


class PartitionAlterer(Protocol):
    """The controller, as leaders see it."""

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> Sequence[PartitionImage | KafkaError]:
        """Make changes true; return each partition as it then is, or why not."""
        ...


class IsrChanges:
    """Proposals that the controller has not answered yet. `run` is a task of its owner's."""

    def __init__(self, controller: PartitionAlterer) -> None:
        self._controller = controller
        self._waiting: dict[LeaderState, None] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, leading: LeaderState) -> None:
        """Ask for what `leading` proposes."""
        self._waiting[leading] = None
        self._arrived.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            try:
                undecided = await self._ask()
            except Exception:
                log.exception("the in-sync replicas cannot be changed")
                undecided = True
            if undecided:
                await asyncio.sleep(RETRY_MS / 1000)
            if self._waiting:
                self._arrived.set()

    async def _ask(self) -> bool:
        """Send one request; return whether something has to be asked again."""
        batch: list[tuple[LeaderState, IsrChange]] = []
        for leading in list(self._waiting)[:MOST_AT_ONCE]:
            change = leading.change()
            if change is None:
                del self._waiting[leading]
            else:
                batch.append((leading, change))
        if not batch:
            return False
        try:
            answers = await self._controller.alter_partitions([change for _, change in batch])
        except KafkaError as error:
            log.info("the controller cannot be asked now: %r", error)
            answers = [error] * len(batch)
        undecided = False
        for (leading, change), answer in zip(batch, answers, strict=True):
            if leading.answered(change, answer):
                undecided = True
            elif (now := leading.change()) is None or now.partition_epoch == change.partition_epoch:
                self._waiting.pop(leading, None)  # unless it has proposed something else by now
        return undecided


PARTITIONS_PER_TURN = 200


class ControllerClient(PartitionAlterer, Protocol):
    """The controller, and this broker's standing in the cluster."""

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker's session, -1 without one."""
        ...


class Replicator:
    """Runs replication on one broker; `start` and `stop` are its owner's to call."""

    def __init__(
        self,
        node_id: int,
        peers: Peers,
        controller: ControllerClient,
        cluster: ClusterState,
        log_directory: LogDirectory,
        flusher: Flusher,
        config: Callable[[], BrokerConfig],
        clock: Clock,
    ) -> None:
        self.node_id = node_id
        self.partitions: Iterable[Partition] = ()
        """All that have a replica here; the registry fills this in."""
        self.step_down: Callable[[Partition], None] = lambda partition: partition.follow(
            partition.leader_epoch
        )
        self.backlog = BrokerBacklog()
        self.leader_rate = Rate(lambda: config().leader_replication_throttled_rate, clock)
        self.follower_rate = Rate(lambda: config().follower_replication_throttled_rate, clock)
        self._peers = peers
        self._controller = controller
        self._cluster = cluster
        self._log_directory = log_directory
        self._flusher = flusher
        self._config = config
        self._clock = clock
        self._changes = IsrChanges(controller)
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._written: dict[TopicPartition, int] = {}

    # Service

    async def start(self) -> None:
        """Begin with everything that takes time."""
        self._spawn("isr changes", self._changes.run())
        self._spawn("isr review", self._review())
        self._spawn("high watermark checkpoints", self._write_high_watermarks())

    async def stop(self) -> None:
        """End it."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), *self._ending, return_exceptions=True)
        self._fetchers.clear()
        self._leaders.clear()

    def _spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        self._tasks[name] = asyncio.get_running_loop().create_task(work, name=name)

    @property
    def pending_changes(self) -> int:
        """How many changes of in-sync replicas the controller has not answered."""
        return len(self._changes)

    # Following

    def follow(self, partition: Partition, leader: int, leader_epoch: int, *, is_in_sync: bool) -> None:
        """Copy a partition from its leader, in this leader epoch."""
        following = self._following(partition)
        if following is None or following.leader_epoch != leader_epoch:
            self.leave(partition)
            following = FollowerState(partition, leader_epoch)
            self._leaders[partition.topic_partition] = leader
            self._fetcher(leader).follow(following)
        following.is_in_sync = is_in_sync

    def leave(self, partition: Partition) -> None:
        """Copy a partition no longer."""
        at = partition.topic_partition
        leader = self._leaders.pop(at, None)
        if leader is None:
            return
        fetcher = self._fetchers[leader]
        fetcher.leave(partition.topic_id, at.partition)
        if not fetcher.followed:
            del self._fetchers[leader]
            task = self._tasks.pop(f"fetch from {leader}", None)
            if task is not None:
                task.cancel()
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
                self._peers.close(leader, "fetch", "nothing is followed there any more")

    def _following(self, partition: Partition) -> FollowerState | None:
        leader = self._leaders.get(partition.topic_partition)
        if leader is None:
            return None
        return self._fetchers[leader].followed.get((partition.topic_id, partition.topic_partition.partition))

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                leader,
                self.node_id,
                self._peers,
                self._flusher,
                self._clock,
                self._config,
                lambda: self.broker_epoch,
                self,
            )
            self._spawn(f"fetch from {leader}", fetcher.run())
        return fetcher

    def holds(self, partition: Partition) -> bool:
        """Return whether a partition that is not in sync must not be fetched now."""
        return partition.throttled_as_follower and self.follower_rate.is_exhausted

    def took(self, partition: Partition, size_bytes: int) -> None:
        """Count what was fetched of a partition that is not in sync."""
        if partition.throttled_as_follower:
            self.follower_rate.take(size_bytes)

    # What leaders need (leader.py, Surroundings)

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker's session, -1 without one."""
        return self._controller.broker_epoch

    @property
    def lag_max_ms(self) -> int:
        """Return replica.lag.time.max.ms."""
        return self._config().replica_lag_time_max_ms

    def now_ms(self) -> int:
        """Return the time, which only ever grows."""
        return self._clock.mono_ms()

    def eligible(self, node_ids: Collection[int]) -> dict[int, int]:
        """Return those brokers that are alive and stay so, with their broker epochs."""
        brokers = self._cluster.image.brokers
        return {
            node_id: broker.epoch
            for node_id in node_ids
            if (broker := brokers.get(node_id)) is not None and not broker.fenced and not broker.shutting_down
        }

    def registered_epoch(self, node_id: int) -> int:
        """Return the broker epoch that the cluster knows a broker by, -1 if it does not know it."""
        broker = self._cluster.image.brokers.get(node_id)
        return -1 if broker is None else broker.epoch

    def propose(self, leading: LeaderState) -> None:
        """Ask the controller for the ISR that `leading` proposes."""
        self._changes.add(leading)

    # What time brings

    async def _review(self) -> None:
        """Look for followers that fell behind."""
        while True:
            await asyncio.sleep(self.lag_max_ms / 2000)
            for number, partition in enumerate(self.partitions):
                if partition.leader_state is not None:
                    try:
                        partition.leader_state.tick()
                    except Exception:
                        log.exception("%s cannot be reviewed", partition.topic_partition)
                if number % PARTITIONS_PER_TURN == 0:
                    await asyncio.sleep(0)

    async def _write_high_watermarks(self) -> None:
        """Write down how far the partitions with several replicas are committed, if that has changed."""
        while True:
            await asyncio.sleep(self._config().replica_high_watermark_checkpoint_interval_ms / 1000)
            marks = {each.topic_partition: each.high_watermark for each in self.partitions}
            if self._log_directory.storage.offline_reason is not None or marks == self._written:
                continue
            if all(each.is_leader and each.leader_state is None for each in self.partitions):
                continue  # the janitor does, for partitions with one replica
            try:
                await asyncio.to_thread(self._log_directory.capture_high_watermarks(marks))
            except OSError as error:
                log.error("the high watermarks cannot be written: %s", error)
            else:
                self._written = marks
