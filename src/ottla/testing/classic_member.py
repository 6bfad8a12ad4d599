"""A light member of a classic group. The leader assigns partitions round robin."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.join_group.v9 import JoinGroupRequest, JoinGroupResponse
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.sync_group.v5 import SyncGroupRequest, SyncGroupResponse
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from ottla.common.ids import TopicPartition
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.types import GroupId, i32
from ottla.testing.group_member import RETRIABLE, RETRY_S, Fenced, GroupMember, check
from ottla.testing.ownership import Ownership
from ottla.wire.address import Address
from ottla.wire.connection import Connection, milliseconds

PROTOCOL_NAME = "in-turn"
TIMEOUT_MS = 120_000
"""How long to wait for the others to join; longer than any rebalance timeout here."""


class ClassicMember(GroupMember):
    """Joins, syncs and sends heartbeats; it gives up all partitions before it rejoins."""

    def __init__(
        self,
        name: str,
        address: Address,
        group_id: str,
        topic: str,
        ownership: Ownership,
        *,
        partitions: int,
        session_ms: int = 30_000,
        heartbeat_ms: int = 500,
    ) -> None:
        super().__init__(name, address, group_id, topic, ownership)
        self._partitions = partitions
        self._session_ms = session_ms
        self._heartbeat_ms = heartbeat_ms
        self._generation = -1

    async def _run_membership(self, connection: Connection) -> None:
        try:
            joined = await self._join(connection)
            is_in = joined is not None and await self._sync(connection, joined)
            while is_in:
                await asyncio.sleep(self._heartbeat_ms / 1000)
                is_in = await self._heartbeat(connection)
        except Fenced:
            self.member_id, self._generation = "", -1

    async def _join(self, connection: Connection) -> JoinGroupResponse | None:
        request = JoinGroupRequest(
            group_id=GroupId(self.group_id),
            session_timeout=milliseconds(self._session_ms),
            rebalance_timeout=milliseconds(self._session_ms),
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=(
                JoinGroupRequestProtocol(
                    name=PROTOCOL_NAME, metadata=encode_subscription(Subscription((self.topic,)), 0)
                ),
            ),
        )
        answer = await connection.request(request, JoinGroupResponse, timeout_ms=TIMEOUT_MS)
        code = check(answer.error_code, also=[ErrorCode.member_id_required, ErrorCode.rebalance_in_progress])
        if code in (ErrorCode.none, ErrorCode.member_id_required):
            self.member_id = answer.member_id
        if code in RETRIABLE:
            await asyncio.sleep(RETRY_S)
        if code is not ErrorCode.none:
            return None
        self._generation = answer.generation_id
        return answer

    async def _sync(self, connection: Connection, joined: JoinGroupResponse) -> bool:
        dealt = self._assign([each.member_id for each in joined.members])
        request = SyncGroupRequest(
            group_id=GroupId(self.group_id),
            generation_id=i32(self._generation),
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL_NAME,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
                for member_id, partitions in dealt.items()
            ),
        )
        answer = await connection.request(request, SyncGroupResponse, timeout_ms=TIMEOUT_MS)
        if check(answer.error_code, also=[ErrorCode.rebalance_in_progress]) is not ErrorCode.none:
            return False
        self._own(decode_assignment(answer.assignment).partitions)
        return True

    def _assign(self, member_ids: Sequence[str]) -> dict[str, list[TopicPartition]]:
        """Return the assignment of each member; only the leader knows the members."""
        ordered = sorted(member_ids)
        dealt: dict[str, list[TopicPartition]] = {member_id: [] for member_id in ordered}
        if ordered:
            for index in range(self._partitions):
                dealt[ordered[index % len(ordered)]].append(TopicPartition(self.topic, index))
        return dealt

    async def _heartbeat(self, connection: Connection) -> bool:
        request = HeartbeatRequest(
            group_id=GroupId(self.group_id), generation_id=i32(self._generation), member_id=self.member_id
        )
        answer = await connection.request(request, HeartbeatResponse)
        code = check(answer.error_code, also=[ErrorCode.rebalance_in_progress])
        return code is not ErrorCode.rebalance_in_progress

    async def _leave_group(self, connection: Connection) -> None:
        identity = MemberIdentity(member_id=self.member_id, reason="leaving")
        request = LeaveGroupRequest(group_id=GroupId(self.group_id), members=(identity,))
        await connection.request(request, LeaveGroupResponse)
