"""The consumer group protocol (KIP-848): the coordinator assigns partitions in its heartbeat responses.

Revoked partitions are released first and then acknowledged with the next heartbeat; only then does another
member get them.

    epoch 0 joins, -1 leaves, -2 leaves for a while (a static member)

Each heartbeat contains only what has changed. The step that changes the assignment waits for a call of the
application; heartbeats continue meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1 import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions

from ottla.client.admin.group_types import ConsumerGroupMetadata
from ottla.client.cluster import Cluster
from ottla.client.consumer.membership.membership import GroupEvents, Membership
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.subscription import Topics
from ottla.client.consumer.waiting import wait_for
from ottla.client.coordinators import Coordinators
from ottla.client.errors import ClientError, raise_for
from ottla.common.ids import TopicPartition, new_uuid, uuid_text
from ottla.protocol.errors import FencedMemberEpoch, KafkaError, UnknownMemberId
from ottla.protocol.types import GroupId, TopicName, i32
from ottla.wire.connection import milliseconds

log = logging.getLogger(__name__)

JOINING, LEAVING, PAUSING = 0, -1, -2
FIRST_INTERVAL_S = 1.0

Ids = dict[str, UUID]


class ConsumerProtocolMembership(Membership):
    """See the module's description."""

    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        options: ConsumerOptions,
        topics: Topics,
        events: GroupEvents,
    ) -> None:
        super().__init__(cluster, coordinators, options, topics, events)
        self._member_id = uuid_text(new_uuid())
        self._epoch = JOINING
        self._interval_s = FIRST_INTERVAL_S
        self._reported: frozenset[TopicPartition] | None = None
        """The partitions and the subscription that were last sent; None before that."""
        self._subscribed: tuple[frozenset[str], str | None] | None = None
        self._topic_ids: Ids = {}
        self._target: frozenset[TopicPartition] | None = None
        self._is_lost = False
        self._soon = asyncio.Event()
        self._has_target = asyncio.Event()

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """The member id and the epoch now."""
        is_in = self._epoch > JOINING
        return ConsumerGroupMetadata(
            self._group_id,
            self._epoch if is_in else -1,
            self._member_id if is_in else "",
            self._options.group_instance_id,
        )

    def resubscribe(self, topics: Topics) -> None:
        """Send a heartbeat with the new subscription at once."""
        self.topics = topics
        self._soon.set()

    async def run(self) -> None:
        """Stay a member until cancelled, or until a permanent error."""
        reconciling = self._loop.create_task(self._reconcile(), name="ottla reconciliation")
        watching = self._loop.create_task(self._watch(), name="ottla topic watch")
        try:
            while True:
                self._soon.clear()
                try:
                    if self._exceeded_poll_interval and self._epoch > JOINING:
                        log.warning("group %s: no call for more than max_poll_interval_ms", self._group_id)
                        await self.leave()
                        self._lose()
                    elif not self._exceeded_poll_interval:
                        await self._heartbeat()
                        self._failures = 0
                except (UnknownMemberId, FencedMemberEpoch):
                    self._lose()
                    continue
                except (KafkaError, ClientError) as error:
                    self._reported = self._subscribed = None  # it may not have arrived: send everything again
                    if not await self._recover(error):
                        return
                    continue
                await self._rest()
        finally:
            for task in (reconciling, watching):
                task.cancel()
            await asyncio.gather(reconciling, watching, return_exceptions=True)

    async def leave(self) -> None:
        """Leave the group; a static member leaves temporarily (epoch -2)."""
        if self._epoch <= JOINING:
            return
        is_static = self._options.group_instance_id is not None
        self._epoch = JOINING
        await self._send(self._request(PAUSING if is_static else LEAVING), ConsumerGroupHeartbeatResponse)

    def _lose(self) -> None:
        """Drop the membership after the group has removed us: others may own the partitions."""
        self._epoch = JOINING
        self._reported = self._subscribed = None
        self._is_lost = True
        self._has_target.set()
        self._soon.set()

    async def _rest(self) -> None:
        await wait_for(self._soon, self._interval_s)

    async def _heartbeat(self) -> None:
        if self._is_lost:
            return  # first all partitions are dropped, during a call of the application
        owned = self._events.owned
        pattern = self.topics.broker_pattern
        names = frozenset() if pattern is not None else await self.topics.find()
        subscribed = names, pattern
        request = self._request(
            self._epoch,
            owned=None if owned == self._reported and self._epoch != JOINING else owned,
            subscribed=None if subscribed == self._subscribed else subscribed,
        )
        answer = await self._send(request, ConsumerGroupHeartbeatResponse)
        raise_for(answer.error_code, answer.error_message or f"group {self._group_id}")
        self._reported, self._subscribed = owned, subscribed
        self._member_id = answer.member_id or self._member_id
        self._epoch = answer.member_epoch
        self._signature = self.identity
        self._interval_s = answer.heartbeat_interval.total_seconds()
        if answer.assignment is not None:
            wanted = {
                (each.topic_id, int(index))
                for each in answer.assignment.topic_partitions
                for index in each.partitions
            }
            self._target = await self._by_name(wanted)
            self._has_target.set()

    def _request(
        self,
        epoch: int,
        owned: frozenset[TopicPartition] | None = None,
        subscribed: tuple[frozenset[str], str | None] | None = None,
    ) -> ConsumerGroupHeartbeatRequest:
        options = self._options
        joins = epoch == JOINING
        names, pattern = subscribed or (frozenset(), None)
        by_topic: dict[str, list[i32]] = defaultdict(list)
        for topic, index in sorted(owned or ()):
            by_topic[topic].append(i32(index))
        return ConsumerGroupHeartbeatRequest(
            group_id=GroupId(self._group_id),
            member_id=self._member_id,
            member_epoch=i32(epoch),
            instance_id=options.group_instance_id,
            rack_id=options.client_rack or None if joins else None,
            rebalance_timeout=milliseconds(options.max_poll_interval_ms if joins else -1),
            subscribed_topic_names=None if subscribed is None else tuple(map(TopicName, sorted(names))),
            subscribed_topic_regex=pattern,
            server_assignor=options.group_remote_assignor if joins else None,
            topic_partitions=None
            if owned is None
            else tuple(
                TopicPartitions(topic_id=self._topic_ids[topic], partitions=tuple(indexes))
                for topic, indexes in by_topic.items()
                if topic in self._topic_ids
            ),
        )

    async def _by_name(self, wanted: set[tuple[UUID | None, int]]) -> frozenset[TopicPartition]:
        """Return the partitions of topic ids; refresh the metadata of unknown ones."""
        names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        if any(topic_id not in names for topic_id, _ in wanted):
            asked = None if self.topics.pattern is not None else self.topics.names
            for name, info in (await self._cluster.refresh(asked)).items():
                if info.topic_id is not None:
                    self._topic_ids[name] = info.topic_id
            names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        return frozenset(
            TopicPartition(names[topic_id], index) for topic_id, index in wanted if topic_id in names
        )

    async def _reconcile(self) -> None:
        """Apply the coordinator's assignment during the application's calls."""
        while True:
            await self._has_target.wait()
            self._has_target.clear()
            if self._is_lost:
                self._target = None
                await self._events.lose(self._events.owned)
                self._is_lost = False
                self._soon.set()
                continue
            target = self._target
            if target is None or (target == self._events.owned and self._reported == target):
                continue
            revoked = self._events.owned - target
            await self._events.change(revoked, target, lambda: not self._is_lost)
            if self._events.owned != self._reported:
                self._soon.set()

    async def _watch(self) -> None:
        """Send a heartbeat when a pattern that the client evaluates matches other topics."""
        while self.topics.pattern is not None and self.topics.broker_pattern is None:
            await self._watch_topics(None)
            self._soon.set()
