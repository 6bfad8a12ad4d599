"""Requests of this broker itself to the controller on another broker.

Requests of clients are forwarded to the controller unchanged (see api/support/forwarding.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol, cast
from uuid import UUID

from kio.schema.allocate_producer_ids.v0 import AllocateProducerIdsRequest
from kio.schema.alter_partition.v3 import AlterPartitionRequest, AlterPartitionResponse
from kio.schema.alter_partition.v3.request import BrokerState, PartitionData, TopicData
from kio.schema.create_topics.v7 import CreateTopicsRequest
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kio.schema.errors import ErrorCode

from ottla.controller.machine import IsrChange, NewTopic
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import ERRORS, KafkaError, UnknownServerError
from ottla.protocol.types import BrokerId, TopicName, i8, i16, i32, i32Timedelta, i64

CALL_TIMEOUT_MS = 10_000


class RequestSender(Protocol):
    """Sends requests to other brokers (`wire.peers.Peers`)."""

    async def call(
        self, node_id: int, api_key: int, version: int, request: Any, *, timeout_ms: int = ...
    ) -> Any:
        """Send a request of this version and return the response; raise a KafkaError if there is none."""
        ...


class RemoteController:
    """The broker `controller_id`, which is the controller as far as this broker knows."""

    def __init__(self, peers: RequestSender, controller_id: int, node_id: int, broker_epoch: int) -> None:
        self._peers = peers
        self._controller_id = controller_id
        self._node_id = node_id
        self._broker_epoch = broker_epoch

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError | None]:
        """Create topics; return the error of each, by name."""
        request = CreateTopicsRequest(
            topics=tuple(_creatable(each) for each in topics),
            timeout=cast("i32Timedelta", timedelta(milliseconds=CALL_TIMEOUT_MS)),
        )
        response = await self._call(ApiKey.CREATE_TOPICS, 7, request)
        return {each.name: _error(each.error_code, each.error_message) for each in response.topics}

    async def alter_partitions(
        self, changes: Sequence[IsrChange]
    ) -> dict[tuple[UUID, int], KafkaError | int]:
        """Request ISR changes; return the new partition epochs or errors, by topic id and partition."""
        topics: dict[UUID, list[PartitionData]] = {}
        for each in changes:
            topics.setdefault(each.topic_id, []).append(_partition_data(each))
        request = AlterPartitionRequest(
            broker_id=BrokerId(self._node_id),
            broker_epoch=i64(self._broker_epoch),
            topics=tuple(TopicData(topic_id=each, partitions=tuple(of)) for each, of in topics.items()),
        )
        response: AlterPartitionResponse = await self._call(ApiKey.ALTER_PARTITION, 3, request)
        if (refused := _error(response.error_code)) is not None:
            raise refused
        return {
            (topic.topic_id, each.partition_index): _error(each.error_code) or each.partition_epoch
            for topic in response.topics
            if topic.topic_id is not None
            for each in topic.partitions
        }

    async def allocate_producer_ids(self) -> range:
        """Return producer ids that are never allocated again."""
        request = AllocateProducerIdsRequest(
            broker_id=BrokerId(self._node_id), broker_epoch=i64(self._broker_epoch)
        )
        response = await self._call(ApiKey.ALLOCATE_PRODUCER_IDS, 0, request)
        if (refused := _error(response.error_code)) is not None:
            raise refused
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

    async def _call(self, api_key: ApiKey, version: int, request: Any) -> Any:
        return await self._peers.call(
            self._controller_id, api_key, version, request, timeout_ms=CALL_TIMEOUT_MS
        )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(topic.name),
        num_partitions=i32(topic.partition_count),
        replication_factor=i16(topic.replication_factor),
        assignments=tuple(
            CreatableReplicaAssignment(
                partition_index=i32(index), broker_ids=tuple(BrokerId(each) for each in brokers)
            )
            for index, brokers in topic.assignments
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.configs),
    )


def _partition_data(change: IsrChange) -> PartitionData:
    return PartitionData(
        partition_index=i32(change.partition),
        leader_epoch=i32(change.leader_epoch),
        new_isr_with_epochs=tuple(
            BrokerState(broker_id=BrokerId(node), broker_epoch=i64(epoch)) for node, epoch in change.new_isr
        ),
        leader_recovery_state=i8(0),
        partition_epoch=i32(change.partition_epoch),
    )


def _error(code: ErrorCode, message: str | None = None) -> KafkaError | None:
    if code is ErrorCode.none:
        return None
    return ERRORS.get(code, UnknownServerError)(message or code.name)
