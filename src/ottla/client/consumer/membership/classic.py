"""The classic group protocol: JoinGroup, SyncGroup, heartbeats, and again after each rebalance.

    heartbeat: the group rebalances      heartbeat: the member is unknown
            |                                     |
    give up everything (eager), or nothing yet    everything is lost
            |                                     |
    JoinGroup -> the leader among the members deals partitions out -> SyncGroup
            |
    cooperative: give up what is not ours any more; if that was something, join once more
            |
    read what is ours, with heartbeats, until one of them says that the group rebalances

Heartbeats have a task of their own, so that they continue while a step waits for the application.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.join_group.v9 import JoinGroupRequest, JoinGroupResponse
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group import v2 as leave_alone
from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.sync_group.v5 import SyncGroupRequest, SyncGroupResponse
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from ottla.client.admin.group_types import ConsumerGroupMetadata
from ottla.client.cluster import Cluster
from ottla.client.consumer.membership.assignors import ASSIGNORS, Member
from ottla.client.consumer.membership.membership import GroupEvents, Membership
from ottla.client.consumer.options import ConsumerOptions
from ottla.client.consumer.subscription import Topics
from ottla.client.coordinators import Coordinators
from ottla.client.errors import ClientError, raise_for
from ottla.common.ids import TopicPartition
from ottla.common.tasks import cancel_and_wait
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.protocol.types import GroupId, i32
from ottla.wire.connection import milliseconds

log = logging.getLogger(__name__)

NO_GENERATION = -1
GRACE_MS = 5_000
"""How much longer than the rebalance timeout to wait for the coordinator."""
FIRST_LEAVE_OF_MANY = 3


class ClassicProtocolMembership(Membership):
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
        self._assignors = [ASSIGNORS[name] for name in options.assignors]
        self._is_cooperative = all(each.is_cooperative for each in self._assignors)
        self._member_id = ""
        self._generation = NO_GENERATION
        self._last_owned: tuple[frozenset[TopicPartition], int] = frozenset(), NO_GENERATION
        self._is_joining = False
        self._is_lost = False
        self._rejoin = asyncio.Event()
        self._counts: dict[str, int] | None = None

    @property
    def identity(self) -> ConsumerGroupMetadata:
        """The member id and the generation now."""
        return ConsumerGroupMetadata(
            self._group_id, self._generation, self._member_id, self._options.group_instance_id
        )

    def resubscribe(self, topics: Topics) -> None:
        """Join again with another subscription."""
        self.topics = topics
        self._rejoin.set()

    async def run(self) -> None:
        """Stay a member until cancelled, or until a permanent error."""
        beating = self._loop.create_task(self._beat(), name="ottla heartbeat")
        try:
            while True:
                try:
                    await self._rebalance()
                    self._failures = 0
                    await self._stay()
                except (UnknownMemberId, IllegalGeneration):
                    self._forget_ourselves()
                except (RebalanceInProgress, MemberIdRequired):
                    pass
                except (KafkaError, ClientError) as error:
                    if not await self._recover(error):
                        return
        finally:
            await cancel_and_wait(beating)

    async def leave(self) -> None:
        """Leave the group at once instead of by a session timeout; a static member stays."""
        if not self._member_id or self._options.group_instance_id is not None:
            return
        member_id, self._member_id, self._generation = self._member_id, "", NO_GENERATION
        connection = await self._coordinator()
        if connection.version_of(ApiKey.LEAVE_GROUP, 5) < FIRST_LEAVE_OF_MANY:
            alone = leave_alone.LeaveGroupRequest(group_id=GroupId(self._group_id), member_id=member_id)
            await self._send(alone, leave_alone.LeaveGroupResponse)
        else:
            identity = MemberIdentity(member_id=member_id, reason="the consumer is closed or stuck")
            request = LeaveGroupRequest(group_id=GroupId(self._group_id), members=(identity,))
            await self._send(request, LeaveGroupResponse)

    def _forget_ourselves(self) -> None:
        """Drop the membership after the group has removed us: others may own the partitions."""
        self._member_id, self._generation = "", NO_GENERATION
        self._is_lost = True
        self._rejoin.set()

    async def _rebalance(self) -> None:
        """Join, compute the assignment as the group's leader, and apply ours."""
        self._rejoin.clear()
        owned = self._events.owned
        if self._is_lost:
            await self._events.lose(owned)
        elif owned and not self._is_cooperative:
            await self._events.revoke(owned, lambda: not self._is_lost)
        self._is_lost = False
        names = await self.topics.find()
        self._rejoin.clear()
        self._is_joining = True
        try:
            joined = await self._join(names)
            assigned = await self._sync(joined, await self._deal(joined))
        finally:
            self._is_joining = False
        self._last_owned = assigned, self._generation
        owned, generation = self._events.owned, self._generation
        revoked = owned - assigned
        await self._events.change(revoked, assigned, lambda: self._generation == generation)
        if revoked:
            self._rejoin.set()  # what we gave up waits for its new owner

    async def _join(self, names: frozenset[str]) -> JoinGroupResponse:
        options = self._options
        owned = self._events.owned
        protocols = tuple(
            JoinGroupRequestProtocol(
                name=each.name,
                metadata=encode_subscription(
                    Subscription(
                        tuple(names),
                        each.user_data(*self._last_owned),
                        tuple(owned),
                        self._generation if owned else NO_GENERATION,
                        options.client_rack or None,
                    )
                ),
            )
            for each in self._assignors
        )
        request = JoinGroupRequest(
            group_id=GroupId(self._group_id),
            session_timeout=milliseconds(options.session_timeout_ms),
            rebalance_timeout=milliseconds(options.max_poll_interval_ms),
            member_id=self._member_id,
            group_instance_id=options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )
        patience_ms = max(options.request_timeout_ms, options.max_poll_interval_ms + GRACE_MS)
        answer = await self._send(request, JoinGroupResponse, patience_ms)
        if answer.error_code == ErrorCode.member_id_required and not self._member_id:
            self._member_id = answer.member_id
            return await self._join(names)
        raise_for(answer.error_code, f"group {self._group_id}")
        self._member_id, self._generation = answer.member_id, answer.generation_id
        self._signature = self.identity
        log.info("group %s: joined generation %d as %s", self._group_id, self._generation, self._member_id)
        return answer

    async def _deal(self, joined: JoinGroupResponse) -> Mapping[str, list[TopicPartition]]:
        """Return the assignment of all members if this one leads the group."""
        self._counts = None
        if joined.leader != self._member_id:
            return {}
        members = {
            each.member_id: Member(each.member_id, decode_subscription(each.metadata), each.group_instance_id)
            for each in joined.members
        }
        topics = frozenset(name for each in members.values() for name in each.subscription.topics)
        self._counts = await self.topics.partition_counts(topics)
        if joined.skip_assignment:
            return {}
        assignor = ASSIGNORS.get(joined.protocol_name or "")
        if assignor is None:
            raise InconsistentGroupProtocol(f"the group uses {joined.protocol_name}, which is not known here")
        return assignor.assign(self._counts, members)

    async def _sync(
        self, joined: JoinGroupResponse, dealt: Mapping[str, list[TopicPartition]]
    ) -> frozenset[TopicPartition]:
        request = SyncGroupRequest(
            group_id=GroupId(self._group_id),
            generation_id=i32(self._generation),
            member_id=self._member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
                for member_id, partitions in dealt.items()
            ),
        )
        options = self._options
        patience_ms = max(options.request_timeout_ms, options.max_poll_interval_ms + GRACE_MS)
        answer = await self._send(request, SyncGroupResponse, patience_ms)
        raise_for(answer.error_code, f"group {self._group_id}")
        return frozenset(decode_assignment(answer.assignment).partitions)

    async def _stay(self) -> None:
        """Return when the member must join again."""
        watched = self._counts
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._rejoin.wait())]
        if watched is not None or self.topics.pattern is not None:
            tasks.append(asyncio.ensure_future(self._watch_topics(watched)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self) -> None:
        """Send heartbeats; leave if the application exceeds max_poll_interval_ms."""
        while True:
            await asyncio.sleep(self._options.heartbeat_interval_ms / 1000)
            if self._generation == NO_GENERATION or self._is_joining:
                continue
            try:
                if self._exceeded_poll_interval:
                    log.warning(
                        "group %s: no call for more than max_poll_interval_ms (%d): leaving the group",
                        self._group_id,
                        self._options.max_poll_interval_ms,
                    )
                    await self.leave()
                    self._forget_ourselves()
                else:
                    await self._heartbeat()
            except (UnknownMemberId, IllegalGeneration):
                self._forget_ourselves()
            except RebalanceInProgress:
                self._rejoin.set()
            except (KafkaError, ClientError) as error:
                if not await self._recover(error):
                    return

    async def _heartbeat(self) -> None:
        generation = self._generation
        request = HeartbeatRequest(
            group_id=GroupId(self._group_id),
            generation_id=i32(generation),
            member_id=self._member_id,
            group_instance_id=self._options.group_instance_id,
        )
        answer = await self._send(request, HeartbeatResponse)
        if generation == self._generation and not self._is_joining:  # else it is about a time gone by
            raise_for(answer.error_code, f"group {self._group_id}")
