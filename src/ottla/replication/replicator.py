"""The replication of one broker: fetchers for what it follows, ISR changes for what it leads.

It has one fetcher per leader, a queue of ISR changes for the controller, a periodic check for followers that
fell behind, and the checkpoint of high watermarks.

ISR changes are sent in batches, one request at a time. A change without a decision (no controller, no
response) is sent again: until it is decided, the leader uses the maximal ISR.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Protocol

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.log.directories.flusher import Flusher
from ottla.log.directories.log_directories import LogDirectories
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

logger = logging.getLogger(__name__)

RETRY_MS = 100
MAX_CHANGES_PER_REQUEST = 1_000


class PartitionAlterer(Protocol):
    """The controller, as leaders use it."""

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> Sequence[PartitionImage | KafkaError]:
        """Apply changes; return each partition afterwards, or the error."""
        ...


class IsrChangeQueue:
    """ISR changes that the controller has not decided yet. `run` is a task of its owner."""

    def __init__(self, controller: PartitionAlterer) -> None:
        self._controller = controller
        self._waiting: dict[LeaderState, None] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, leader_state: LeaderState) -> None:
        """Enqueue the change that `leader_state` proposes."""
        self._waiting[leader_state] = None
        self._arrived.set()

    async def run(self) -> None:
        """Send changes until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            try:
                undecided = await self._send_batch()
            except Exception:
                logger.exception("cannot change in-sync replicas")
                undecided = True
            if undecided:
                await asyncio.sleep(RETRY_MS / 1000)
            if self._waiting:
                self._arrived.set()

    async def _send_batch(self) -> bool:
        """Send one request; return whether something has to be sent again."""
        batch: list[tuple[LeaderState, IsrChange]] = []
        for leader_state in list(self._waiting)[:MAX_CHANGES_PER_REQUEST]:
            change = leader_state.pending_change()
            if change is None:
                del self._waiting[leader_state]
            else:
                batch.append((leader_state, change))
        if not batch:
            return False
        try:
            answers = await self._controller.alter_partitions([change for _, change in batch])
        except KafkaError as error:
            logger.info("cannot reach the controller, retrying: %r", error)
            answers = [error] * len(batch)
        undecided = False
        for (leader_state, change), answer in zip(batch, answers, strict=True):
            if leader_state.handle_result(change, answer):
                undecided = True
            elif (
                now := leader_state.pending_change()
            ) is None or now.partition_epoch == change.partition_epoch:
                self._waiting.pop(leader_state, None)  # unless it has proposed something else by now
        return undecided


PARTITIONS_PER_ITERATION = 200


class ControllerClient(PartitionAlterer, Protocol):
    """The controller, and this broker's session."""

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker's session, -1 without one."""
        ...


class Replicator:
    """Runs replication on one broker; its owner calls `start` and `stop`."""

    def __init__(
        self,
        node_id: int,
        peers: Peers,
        controller: ControllerClient,
        cluster: ClusterState,
        log_directories: LogDirectories,
        flusher: Flusher,
        config: Callable[[], BrokerConfig],
        clock: Clock,
    ) -> None:
        self.node_id = node_id
        self.partitions: Iterable[Partition] = ()
        """All partitions with a replica here; set by the registry."""
        self.step_down: Callable[[Partition], None] = lambda partition: partition.follow(
            partition.leader_epoch
        )
        self.backlog = BrokerBacklog()
        self.leader_rate = Rate(lambda: config().leader_replication_throttled_rate, clock)
        self.follower_rate = Rate(lambda: config().follower_replication_throttled_rate, clock)
        self._peers = peers
        self._controller = controller
        self._cluster = cluster
        self._log_directories = log_directories
        self._flusher = flusher
        self._config = config
        self._clock = clock
        self._changes = IsrChangeQueue(controller)
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._checkpointed: dict[TopicPartition, int] = {}

    # Service

    async def start(self) -> None:
        """Start the background tasks."""
        self._spawn("isr changes", self._changes.run())
        self._spawn("isr review", self._check_followers())
        self._spawn("high watermark checkpoints", self._write_high_watermarks())

    async def stop(self) -> None:
        """Stop the background tasks and all fetchers."""
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
        """Return the number of ISR changes that the controller has not decided."""
        return len(self._changes)

    # Following

    def follow(self, partition: Partition, leader: int, leader_epoch: int, *, is_in_sync: bool) -> None:
        """Replicate a partition from its leader, in this leader epoch."""
        follower_state = self._follower_state(partition)
        if follower_state is None or follower_state.leader_epoch != leader_epoch:
            self.unfollow(partition)
            follower_state = FollowerState(partition, leader_epoch)
            self._leaders[partition.topic_partition] = leader
            self._fetcher(leader).follow(follower_state)
        follower_state.is_in_sync = is_in_sync

    def unfollow(self, partition: Partition) -> None:
        """Stop replicating a partition."""
        topic_partition = partition.topic_partition
        leader = self._leaders.pop(topic_partition, None)
        if leader is None:
            return
        fetcher = self._fetchers[leader]
        fetcher.unfollow(partition.topic_id, topic_partition.partition)
        if not fetcher.followed:
            del self._fetchers[leader]
            task = self._tasks.pop(f"fetch from {leader}", None)
            if task is not None:
                task.cancel()
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
                self._peers.close(leader, "fetch", "no partition is fetched from there any more")

    def _follower_state(self, partition: Partition) -> FollowerState | None:
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

    def is_throttled(self, partition: Partition) -> bool:
        """Return whether a partition that is not in sync must not be fetched now."""
        return partition.throttled_as_follower and self.follower_rate.is_exhausted

    def record_bytes(self, partition: Partition, size_bytes: int) -> None:
        """Count the bytes fetched of a partition that is not in sync."""
        if partition.throttled_as_follower:
            self.follower_rate.record(size_bytes)

    # LeaderEnvironment (leader.py)

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker's session, -1 without one."""
        return self._controller.broker_epoch

    @property
    def lag_max_ms(self) -> int:
        """Return replica.lag.time.max.ms."""
        return self._config().replica_lag_time_max_ms

    def now_ms(self) -> int:
        """Return the monotonic time."""
        return self._clock.mono_ms()

    def eligible(self, node_ids: Collection[int]) -> dict[int, int]:
        """Return which of these brokers are alive and not shutting down, with their broker epochs."""
        brokers = self._cluster.image.brokers
        return {
            node_id: broker.epoch
            for node_id in node_ids
            if (broker := brokers.get(node_id)) is not None and not broker.fenced and not broker.shutting_down
        }

    def registered_epoch(self, node_id: int) -> int:
        """Return a broker's registered epoch, -1 if it is not registered."""
        broker = self._cluster.image.brokers.get(node_id)
        return -1 if broker is None else broker.epoch

    def propose(self, leader_state: LeaderState) -> None:
        """Send the ISR change that `leader_state` proposes to the controller."""
        self._changes.add(leader_state)

    # Periodic tasks

    async def _check_followers(self) -> None:
        """Check periodically for followers that fell behind."""
        while True:
            await asyncio.sleep(self.lag_max_ms / 2000)
            for number, partition in enumerate(self.partitions):
                if partition.leader_state is not None:
                    try:
                        partition.leader_state.check_followers()
                    except Exception:
                        logger.exception("cannot check the followers of %s", partition.topic_partition)
                if number % PARTITIONS_PER_ITERATION == 0:
                    await asyncio.sleep(0)

    async def _write_high_watermarks(self) -> None:
        """Checkpoint the high watermarks periodically, if they have changed."""
        while True:
            await asyncio.sleep(self._config().replica_high_watermark_checkpoint_interval_ms / 1000)
            high_watermarks = {each.topic_partition: each.high_watermark for each in self.partitions}
            if self._log_directories.are_all_offline or high_watermarks == self._checkpointed:
                continue
            if all(each.is_leader and each.leader_state is None for each in self.partitions):
                continue  # LogMaintenance writes those of partitions with one replica
            try:
                await asyncio.to_thread(self._log_directories.capture_high_watermarks(high_watermarks))
            except OSError as error:
                logger.error("cannot write the high watermark checkpoint: %s", error)
            else:
                self._checkpointed = high_watermarks
