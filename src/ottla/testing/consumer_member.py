"""A light member of a consumer group (KIP-848): the coordinator assigns partitions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1 import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions
from kio.schema.errors import ErrorCode

from ottla.common.ids import new_uuid, uuid_text
from ottla.protocol.types import GroupId, TopicName, i32
from ottla.testing.group_member import RETRY_S, Fenced, GroupMember, check
from ottla.testing.ownership import Ownership, Place
from ottla.wire.address import Address
from ottla.wire.connection import Connection, milliseconds

JOINING, LEAVING = 0, -1
REBALANCE_TIMEOUT_MS = 30_000


class ConsumerMember(GroupMember):
    """Sends heartbeats; it gives up revoked partitions before it reports that in the next one."""

    def __init__(self, name: str, address: Address, group_id: str, topic: str, ownership: Ownership) -> None:
        super().__init__(name, address, group_id, topic, ownership)
        self.member_id = uuid_text(new_uuid())
        self._epoch = JOINING
        self._topic_ids: dict[str, UUID] = {}

    async def _run_membership(self, connection: Connection) -> None:
        self._epoch = JOINING
        reported: set[Place] = set()
        try:
            while True:
                is_news = self._epoch == JOINING or reported != self.owned
                reported = set(self.owned)
                answer = await self._heartbeat(connection, self._epoch, reported if is_news else None)
                if check(answer.error_code) is not ErrorCode.none:
                    await asyncio.sleep(RETRY_S)
                    reported = set()
                    continue
                self._epoch = answer.member_epoch
                if answer.assignment is not None:
                    self._own(self._places(answer))
                if reported == self.owned:  # otherwise there is something to report at once
                    await asyncio.sleep(answer.heartbeat_interval.total_seconds())
        except Fenced:
            return

    def _places(self, answer: ConsumerGroupHeartbeatResponse) -> set[Place]:
        assert answer.assignment is not None
        places = set()
        for each in answer.assignment.topic_partitions:
            if each.topic_id is not None:
                text = uuid_text(each.topic_id)
                self._topic_ids[text] = each.topic_id
                places |= {(text, int(partition)) for partition in each.partitions}
        return places

    async def _heartbeat(
        self, connection: Connection, epoch: int, owned: set[Place] | None
    ) -> ConsumerGroupHeartbeatResponse:
        joins = epoch == JOINING
        request = ConsumerGroupHeartbeatRequest(
            group_id=GroupId(self.group_id),
            member_id=self.member_id,
            member_epoch=i32(epoch),
            rebalance_timeout=milliseconds(REBALANCE_TIMEOUT_MS if joins else -1),
            subscribed_topic_names=(TopicName(self.topic),) if joins else None,
            topic_partitions=None if owned is None else self._by_topic(owned),
        )
        return await connection.request(request, ConsumerGroupHeartbeatResponse)

    def _by_topic(self, owned: set[Place]) -> tuple[TopicPartitions, ...]:
        topics: dict[str, list[i32]] = defaultdict(list)
        for topic, partition in sorted(owned):
            topics[topic].append(i32(partition))
        return tuple(
            TopicPartitions(topic_id=self._topic_ids[topic], partitions=tuple(partitions))
            for topic, partitions in topics.items()
        )

    async def _leave_group(self, connection: Connection) -> None:
        await self._heartbeat(connection, LEAVING, None)
