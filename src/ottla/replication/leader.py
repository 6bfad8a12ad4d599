"""What a leader with followers does: count their fetches, commit, and keep the ISR right.

The decisions are in isr.py; this joins them to one partition's log and to the rest of the broker.
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

log = logging.getLogger(__name__)

_REFUSED = (IneligibleReplica, InvalidRequest)
"""The proposal was not made true, and never will be."""
_OVERTAKEN = (InvalidUpdateVersion, NewLeaderElected, UnknownTopicId, UnknownTopicOrPartition)
"""The partition is another than we think, maybe by this very proposal: the image will tell."""
_DEPOSED = (FencedLeaderEpoch, StaleBrokerEpoch)
"""This broker leads no longer, whatever it thinks."""
REFUSED_PAUSE_MS = 500
"""How long to wait after a refusal before anything is proposed again."""


class LeaderEnvironment(Protocol):
    """What a leader needs to know of, and ask of, the rest of the broker."""

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
        """Return what all partitions led here have appended and not committed."""
        ...

    def now_ms(self) -> int:
        """Return the time, which only ever grows."""
        ...

    def eligible(self, node_ids: Collection[int]) -> dict[int, int]:
        """Return those brokers that are alive and stay so, with their broker epochs."""
        ...

    def registered_epoch(self, node_id: int) -> int:
        """Return the broker epoch that the cluster knows a broker by, -1 if it does not know it."""
        ...

    def propose(self, leading: LeaderState) -> None:
        """Ask the controller for the ISR that `leading` proposes."""
        ...

    def step_down(self, partition: Partition) -> None:
        """Stop leading a partition: another leader has been elected."""
        ...


class LeaderState:
    """The leadership of one partition in one leader epoch."""

    def __init__(self, partition: Partition, image: PartitionImage, surroundings: LeaderEnvironment) -> None:
        self.partition = partition
        self.leader_epoch = image.leader_epoch
        self.replica_count = len(image.replicas)
        self.state = InSyncReplicas(
            surroundings.node_id,
            partition.log.log_end_offset,
            image.replicas,
            image.isr,
            image.partition_epoch,
            surroundings.now_ms(),
        )
        self.acks_all_backlog = Backlog(surroundings.backlog.acks_all)
        """What producers wait for."""
        self.total_backlog = Backlog(surroundings.backlog.total)
        """With what nobody waits for."""
        self._surroundings = surroundings
        self._quiet_until_ms = 0
        self._deletions: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def min_insync(self) -> int:
        """How many replicas must be in sync for anything to be committed."""
        return min(self.partition.min_insync_replicas, self.replica_count)

    @property
    def is_alone(self) -> bool:
        """Whether this leader is all that can be in sync."""
        return len(self.state.maximal) == 1

    def is_in_sync(self, node_id: int) -> bool:
        """Return whether a follower is in the ISR: then it has had everything that is committed."""
        return node_id in self.state.isr

    def check_in_sync(self) -> None:
        """Refuse to append what could not be committed."""
        if len(self.state.isr) < self.min_insync:
            raise NotEnoughReplicas(f"{len(self.state.isr)} of {self.min_insync} replicas are in sync")

    def full_backlog(self, acks: int) -> Backlog | None:
        """Return the backlog that a produce request has to wait for, None if there is room."""
        if acks < 0:
            return self.acks_all_backlog if self.acks_all_backlog.is_full else None
        return self.total_backlog if self.total_backlog.is_full and self._is_any_late() else None

    def _is_any_late(self) -> bool:
        """Return whether a member of the ISR lags so much that it may have to leave, and all of them fetch.

        Nobody who need not waits for a member that has fallen silent: it may be gone.
        """
        state, here = self.state, self._surroundings
        now_ms, log_end = here.now_ms(), self.partition.log.log_end_offset
        members = [each for node_id, each in state.followers.items() if node_id in state.maximal]
        return all(each.is_heard_from(SILENT_MS, now_ms) for each in members) and not all(
            each.keeps_up(log_end, here.lag_max_ms // LATE_FRACTION, now_ms) for each in members
        )

    # What followers say

    def check_fetch(self, node_id: int, broker_epoch: int) -> None:
        """Refuse a fetch of a broker that is no follower, or of an earlier incarnation."""
        follower = self.state.followers.get(node_id)
        if follower is None:
            raise NotLeaderOrFollower(f"broker {node_id} has no replica of {self.partition.topic_partition}")
        known = max(follower.broker_epoch, self._surroundings.registered_epoch(node_id))
        check_broker_epoch(broker_epoch, known)

    def fetched(self, node_id: int, offset: int, log_start_offset: int, broker_epoch: int) -> None:
        """Count a fetch that was checked: the follower has everything below `offset`."""
        state, partition = self.state, self.partition
        follower = state.followers[node_id]
        before = follower.log_end_offset
        log_end, now_ms = partition.log.log_end_offset, self._surroundings.now_ms()
        follower.fetched(offset, log_start_offset, log_end, broker_epoch, now_ms)
        if offset != before:
            self.advance()
            if self.total_backlog.has_waiting and not self._is_any_late():
                self.total_backlog.admit_all()
        if state.is_waiting_to_join(node_id, partition.high_watermark):
            self.review_members()
        if self._deletions:
            self._finish_deletions()

    # Deleted records

    def when_deleted(self, offset: int) -> asyncio.Future[None] | None:
        """Return None if every living replica starts at `offset` or later, else a future for when they do."""
        if self._low_watermark() >= offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deletions.append((offset, future))
        return future

    def _low_watermark(self) -> int:
        alive = self._surroundings.eligible(self.state.followers)
        return self.state.low_watermark(self.partition.log_start_offset, alive)

    def _finish_deletions(self) -> None:
        low_watermark, waiting = self._low_watermark(), self._deletions
        self._deletions = [(offset, each) for offset, each in waiting if offset > low_watermark]
        for offset, future in waiting:
            if offset <= low_watermark and not future.done():
                future.set_result(None)

    def end(self) -> None:
        """Lead no longer."""
        self.acks_all_backlog.close()
        self.total_backlog.close()
        waiting, self._deletions = self._deletions, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(
                    NotLeaderOrFollower(f"{self.partition.topic_partition} is led elsewhere")
                )

    # What follows from it

    def advance(self) -> None:
        """Commit what everybody has."""
        partition, state, here = self.partition, self.state, self._surroundings
        log = partition.log
        own_end = log.recovery_point if log.config.flush_messages == 1 else log.log_end_offset
        also: Collection[int] = ()
        if len(state.maximal) <= len(state.followers):
            eligible = here.eligible(state.followers)
            also = state.joining_soon(eligible, log.log_end_offset, here.lag_max_ms, here.now_ms())
        committed = state.high_watermark(own_end, self.min_insync, also)
        if committed > partition.high_watermark:
            partition.commit(committed)

    def review_members(self) -> None:
        """Ask for another ISR if some fell behind or caught up."""
        state, here = self.state, self._surroundings
        if state.proposed is not None or here.now_ms() < self._quiet_until_ms:
            return
        eligible = here.eligible(state.followers)
        # Only the incarnation that caught up may join: another one may have lost what it had (KIP-903).
        joining = [node_id for node_id, epoch in eligible.items() if state.broker_epoch(node_id) == epoch]
        wanted = state.wanted_members(
            joining,
            self.partition.high_watermark,
            self.partition.log.log_end_offset,
            here.lag_max_ms,
            here.now_ms(),
        )
        if wanted is not None:
            name, epoch = self.partition.topic_partition, self.leader_epoch
            log.info("%s, epoch %d: asking for the ISR %s instead of %s", name, epoch, wanted, state.isr)
            state.propose(wanted)
            here.propose(self)

    def tick(self) -> None:
        """Do what only time brings about."""
        self.review_members()
        self.advance()
        if self._deletions:
            self._finish_deletions()

    # What the controller says

    def change(self) -> IsrChange | None:
        """Return the proposal that is under way, None if there is none any more."""
        partition, state = self.partition, self.state
        if state.proposed is None or partition.leader_state is not self:
            return None
        here = self._surroundings
        return IsrChange(
            partition.topic_id,
            partition.topic_partition.partition,
            self.leader_epoch,
            state.partition_epoch,
            tuple(
                (node_id, here.broker_epoch if node_id == here.node_id else state.broker_epoch(node_id))
                for node_id in state.proposed
            ),
        )

    def answered(self, change: IsrChange, answer: PartitionImage | KafkaError) -> bool:
        """Take in the controller's answer to a proposal; return whether to ask again."""
        state = self.state
        if self.partition.leader_state is not self or state.partition_epoch != change.partition_epoch:
            return False  # the image was faster
        if isinstance(answer, PartitionImage):
            if answer.leader_epoch == self.leader_epoch and answer.leader == state.node_id:
                self.update(answer)
            return False  # of another leader the image tells
        log.info("%s: the ISR was not changed: %r", self.partition.topic_partition, answer)
        if isinstance(answer, _REFUSED):
            self._quiet_until_ms = self._surroundings.now_ms() + REFUSED_PAUSE_MS
            state.withdraw()
            self.review()
        elif isinstance(answer, _DEPOSED):
            self._surroundings.step_down(self.partition)
        return not isinstance(answer, _REFUSED + _OVERTAKEN + _DEPOSED)

    def update(self, image: PartitionImage) -> None:
        """Take over replicas and ISR as the controller decided on them, in this leader epoch."""
        self.replica_count = len(image.replicas)
        if self.state.update(image.replicas, image.isr, image.partition_epoch, self._surroundings.now_ms()):
            self.review()

    def review(self) -> None:
        """Look again at what is committed: the members, or how many there must be, have changed.

        With too few in sync, requests that are not appended yet are refused. Those that are appended wait:
        their records are committed when there are enough again (decision 89).
        """
        if len(self.state.isr) < self.min_insync:
            self.acks_all_backlog.admit_all()
        self.advance()
