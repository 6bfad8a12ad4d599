"""The leader of a partition with followers: record their fetches, commit, and maintain the ISR.

The decisions are in isr.py; this connects them to one partition's log and to the rest of the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from ottla.metadata.entities import IsrChange, PartitionImage
from ottla.protocol.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.replication.backlog import LATE_FRACTION, SILENT_MS, Backlog, BrokerBacklog
from ottla.replication.isr import InSyncReplicas
from ottla.replication.leader_epochs import check_broker_epoch

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

logger = logging.getLogger(__name__)

_REJECTED = (IneligibleReplica, InvalidRequest)
"""The proposal was not applied, and never will be."""
_OUTDATED = (InvalidUpdateVersion, NewLeaderElected, UnknownTopicId, UnknownTopicOrPartition)
"""The partition has changed, possibly by this very proposal: wait for the image."""
_FENCED = (FencedLeaderEpoch, StaleBrokerEpoch)
"""This broker is no longer the leader."""
REJECTED_BACKOFF_MS = 500
"""How long to wait after a rejection before the next proposal."""


class LeaderEnvironment(Protocol):
    """What a leader needs from the rest of the broker."""

    @property
    def node_id(self) -> int:
        """Return this broker's id."""
        ...

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker's session, -1 without one."""
        ...

    @property
    def lag_max_ms(self) -> int:
        """Return replica.lag.time.max.ms."""
        ...

    @property
    def backlog(self) -> BrokerBacklog:
        """Return the uncommitted bytes of all partitions led here."""
        ...

    def now_ms(self) -> int:
        """Return the monotonic time."""
        ...

    def eligible(self, node_ids: Collection[int]) -> dict[int, int]:
        """Return which of these brokers are alive and not shutting down, with their broker epochs."""
        ...

    def registered_epoch(self, node_id: int) -> int:
        """Return a broker's registered epoch, -1 if it is not registered."""
        ...

    def propose(self, leader_state: LeaderState) -> None:
        """Send the ISR change that `leader_state` proposes to the controller."""
        ...

    def step_down(self, partition: Partition) -> None:
        """Stop leading a partition: another leader has been elected."""
        ...


class LeaderState:
    """The leadership of one partition in one leader epoch."""

    def __init__(self, partition: Partition, image: PartitionImage, environment: LeaderEnvironment) -> None:
        self.partition = partition
        self.leader_epoch = image.leader_epoch
        self.replica_count = len(image.replicas)
        self._on_bad_disks = (*image.failed, *image.full)
        """Replicas whose log directory is offline or full, though their brokers are alive."""
        self._has_eligible = _has_eligible(image)
        """Whether replicas outside the ISR may be elected: they must have all that is committed."""
        self.isr_state = InSyncReplicas(
            environment.node_id,
            partition.log.log_end_offset,
            image.replicas,
            image.isr,
            image.partition_epoch,
            environment.now_ms(),
        )
        self.acks_all_backlog = Backlog(environment.backlog.acks_all)
        """Appends that producers wait for."""
        self.total_backlog = Backlog(environment.backlog.total)
        """All appends."""
        self._environment = environment
        self._propose_after_ms = 0
        self._deletions: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def min_insync(self) -> int:
        """Return how many replicas must be in sync for anything to be committed.

        While replicas outside the ISR may be elected, more than now, whatever this broker's configuration is:
        the controller's may differ (decision 430).
        """
        configured = min(self.partition.min_insync_replicas, self.replica_count)
        return max(configured, len(self.isr_state.isr) + 1) if self._has_eligible else configured

    @property
    def is_only_in_sync(self) -> bool:
        """Return whether no follower can be in sync."""
        return len(self.isr_state.maximal) == 1

    def is_in_sync(self, node_id: int) -> bool:
        """Return whether a follower is in the ISR: then it has everything that is committed."""
        return node_id in self.isr_state.isr

    def check_in_sync(self) -> None:
        """Reject an append that could not be committed."""
        if len(self.isr_state.isr) < self.min_insync:
            raise NotEnoughReplicas(f"{len(self.isr_state.isr)} of {self.min_insync} replicas are in sync")

    def late_members(self, limit_ms: int) -> list[int]:
        """Return the in-sync replicas that have not kept up for `limit_ms`: writes with acks=all wait for
        them.
        """
        log_end, now_ms = self.partition.log.log_end_offset, self._environment.now_ms()
        return self.isr_state.late_members(log_end, limit_ms, now_ms)

    def full_backlog(self, acks: int) -> Backlog | None:
        """Return the backlog that a produce request has to wait for, None if there is room."""
        if acks < 0:
            return self.acks_all_backlog if self.acks_all_backlog.is_full else None
        return self.total_backlog if self.total_backlog.is_full and self._is_any_follower_late() else None

    def _is_any_follower_late(self) -> bool:
        """Return whether an ISR member lags so far that it may be removed, while all of them fetch.

        Requests that need not wait do not wait for a member that has stopped fetching: it may be down.
        """
        state, env = self.isr_state, self._environment
        now_ms, log_end = env.now_ms(), self.partition.log.log_end_offset
        members = [each for node_id, each in state.followers.items() if node_id in state.maximal]
        return all(each.has_fetched_within(SILENT_MS, now_ms) for each in members) and not all(
            each.is_within_lag(log_end, env.lag_max_ms // LATE_FRACTION, now_ms) for each in members
        )

    # Fetches of followers

    def check_fetch(self, node_id: int, broker_epoch: int) -> None:
        """Reject a fetch from a broker that is no follower, or from an earlier incarnation."""
        follower = self.isr_state.followers.get(node_id)
        if follower is None:
            raise NotLeaderOrFollower(f"broker {node_id} has no replica of {self.partition.topic_partition}")
        known = max(follower.broker_epoch, self._environment.registered_epoch(node_id))
        check_broker_epoch(broker_epoch, known)

    def record_fetch(self, node_id: int, offset: int, log_start_offset: int, broker_epoch: int) -> None:
        """Record a checked fetch: the follower has everything below `offset`."""
        state, partition = self.isr_state, self.partition
        follower = state.followers[node_id]
        before = follower.log_end_offset
        log_end, now_ms = partition.log.log_end_offset, self._environment.now_ms()
        follower.record_fetch(offset, log_start_offset, log_end, broker_epoch, now_ms)
        if offset != before:
            self.advance_high_watermark()
            if self.total_backlog.has_waiting and not self._is_any_follower_late():
                self.total_backlog.admit_all()
        if state.is_waiting_to_join(node_id, partition.high_watermark):
            self.propose_isr_change()
        if self._deletions:
            self._finish_deletions()

    # Deleted records

    def when_deleted(self, offset: int) -> asyncio.Future[None] | None:
        """Return None if the log of every live replica starts at `offset` or later, else a future for
        that.
        """
        if self._low_watermark() >= offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deletions.append((offset, future))
        return future

    def _eligible(self) -> dict[int, int]:
        """Return the followers that may join the ISR, with their broker epochs."""
        followers: Collection[int] = self.isr_state.followers
        if self._on_bad_disks:
            followers = [each for each in followers if each not in self._on_bad_disks]
        return self._environment.eligible(followers)

    def _low_watermark(self) -> int:
        alive = self._eligible()
        return self.isr_state.low_watermark(self.partition.log_start_offset, alive)

    def _finish_deletions(self) -> None:
        low_watermark, waiting = self._low_watermark(), self._deletions
        self._deletions = [(offset, each) for offset, each in waiting if offset > low_watermark]
        for offset, future in waiting:
            if offset <= low_watermark and not future.done():
                future.set_result(None)

    def close(self) -> None:
        """End the leadership."""
        self.acks_all_backlog.close()
        self.total_backlog.close()
        waiting, self._deletions = self._deletions, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(
                    NotLeaderOrFollower(f"{self.partition.topic_partition} is led elsewhere")
                )

    # High watermark and ISR

    def advance_high_watermark(self) -> None:
        """Commit what all in-sync replicas have."""
        partition, state, env = self.partition, self.isr_state, self._environment
        log = partition.log
        own_end = log.recovery_point if log.config.flush_messages == 1 else log.log_end_offset
        also: Collection[int] = ()
        if len(state.maximal) <= len(state.followers):
            eligible = self._eligible()
            also = state.joining_soon(eligible, log.log_end_offset, env.lag_max_ms, env.now_ms())
        committed = state.high_watermark(own_end, self.min_insync, also)
        if committed > partition.high_watermark:
            partition.commit(committed)

    def propose_isr_change(self) -> None:
        """Propose another ISR if followers fell behind or caught up."""
        state, env = self.isr_state, self._environment
        if state.proposed is not None or env.now_ms() < self._propose_after_ms:
            return
        eligible = self._eligible()
        # Only the incarnation that caught up may join: another one may have lost what it had (KIP-903).
        joining = [node_id for node_id, epoch in eligible.items() if state.broker_epoch(node_id) == epoch]
        wanted = state.target_isr(
            joining,
            self.partition.high_watermark,
            self.partition.log.log_end_offset,
            env.lag_max_ms,
            env.now_ms(),
        )
        if wanted is not None:
            name, epoch = self.partition.topic_partition, self.leader_epoch
            logger.info("%s, epoch %d: proposing the ISR %s instead of %s", name, epoch, wanted, state.isr)
            state.propose(wanted)
            env.propose(self)

    def check_followers(self) -> None:
        """Do what depends on time: review the ISR, advance the high watermark, complete deletions."""
        self.propose_isr_change()
        self.advance_high_watermark()
        if self._deletions:
            self._finish_deletions()

    # Decisions of the controller

    def pending_change(self) -> IsrChange | None:
        """Return the pending proposal, None if there is none any more."""
        partition, state = self.partition, self.isr_state
        if state.proposed is None or partition.leader_state is not self:
            return None
        env = self._environment
        return IsrChange(
            partition.topic_id,
            partition.topic_partition.partition,
            self.leader_epoch,
            state.partition_epoch,
            tuple(
                (node_id, env.broker_epoch if node_id == env.node_id else state.broker_epoch(node_id))
                for node_id in state.proposed
            ),
        )

    def handle_result(self, change: IsrChange, answer: PartitionImage | KafkaError) -> bool:
        """Handle the controller's response to a proposal; return whether to send it again."""
        state = self.isr_state
        if self.partition.leader_state is not self or state.partition_epoch != change.partition_epoch:
            return False  # the image was faster
        if isinstance(answer, PartitionImage):
            if answer.leader_epoch == self.leader_epoch and answer.leader == state.node_id:
                self.update(answer)
            return False  # another leader is learned from the image
        logger.info("%s: the ISR change failed: %r", self.partition.topic_partition, answer)
        if isinstance(answer, _REJECTED):
            self._propose_after_ms = self._environment.now_ms() + REJECTED_BACKOFF_MS
            state.withdraw()
            self.reevaluate()
        elif isinstance(answer, _FENCED):
            self._environment.step_down(self.partition)
        return not isinstance(answer, _REJECTED + _OUTDATED + _FENCED)

    def update(self, image: PartitionImage) -> None:
        """Apply the controller's replicas and ISR, in this leader epoch."""
        bad_disks = (*image.failed, *image.full)
        is_changed, self._on_bad_disks = self._on_bad_disks != bad_disks, bad_disks
        self.replica_count = len(image.replicas)
        if self.isr_state.update(
            image.replicas, image.isr, image.partition_epoch, self._environment.now_ms()
        ):
            is_changed, self._has_eligible = True, _has_eligible(image)
        if is_changed:
            self.reevaluate()

    def reevaluate(self) -> None:
        """Recompute what is committed after the ISR, or min.insync.replicas, has changed.

        With too few in sync, requests that are not appended yet are rejected. Those that are appended wait:
        their records are committed when enough replicas are in sync again (decision 89).
        """
        if len(self.isr_state.isr) < self.min_insync:
            self.acks_all_backlog.admit_all()
        self.advance_high_watermark()


def _has_eligible(image: PartitionImage) -> bool:
    return bool(image.elr or image.last_known_elr)
