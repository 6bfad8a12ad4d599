"""A simulated operator: reassigns partitions, elects leaders, aborts hanging transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.alter_partition_reassignments.v0 import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v0.request import ReassignablePartition, ReassignableTopic
from kio.schema.elect_leaders.v2 import ElectLeadersRequest
from kio.schema.elect_leaders.v2.request import TopicPartitions
from kio.schema.types import BrokerId
from kio.schema.write_txn_markers.v1 import WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v1.request import WritableTxnMarker, WritableTxnMarkerTopic

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import ProducerId, TopicName, i8, i16, i32
from ottla.testing.simulation.client import TIMEOUT_MS, SimClient
from ottla.testing.simulation.transactions.probe import Hanging
from ottla.wire.connection import milliseconds

REASSIGN_VERSION, ELECT_VERSION, MARKERS_VERSION = 0, 2, 1
ATTEMPTS = 5


class SimOperator:
    """Sends each request a few times, and ignores failures."""

    def __init__(self, client: SimClient) -> None:
        self._client = client

    async def reassign(self, place: TopicPartition, replicas: Sequence[int] | None) -> None:
        """Move a partition to other replicas; with None, stop moving it."""
        wanted = None if replicas is None else tuple(BrokerId(each) for each in replicas)
        partition = ReassignablePartition(partition_index=i32(place.partition), replicas=wanted)
        topic = ReassignableTopic(name=TopicName(place.topic), partitions=(partition,))
        request = AlterPartitionReassignmentsRequest(timeout=milliseconds(TIMEOUT_MS), topics=(topic,))
        await self._ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, REASSIGN_VERSION, request)

    async def elect_preferred_leaders(self) -> None:
        """Let every partition be led by its first replica."""
        request = ElectLeadersRequest(
            election_type=i8(0), topic_partitions=None, timeout=milliseconds(TIMEOUT_MS)
        )
        await self._ask(ApiKey.ELECT_LEADERS, ELECT_VERSION, request)

    async def elect_unclean_leaders(self, places: Sequence[TopicPartition]) -> None:
        """Let anyone lead these partitions, be it with fewer records."""
        topics = tuple(
            TopicPartitions(topic=TopicName(each.topic), partitions=(i32(each.partition),)) for each in places
        )
        request = ElectLeadersRequest(
            election_type=i8(1), topic_partitions=topics, timeout=milliseconds(TIMEOUT_MS)
        )
        await self._ask(ApiKey.ELECT_LEADERS, ELECT_VERSION, request)

    async def abort(self, hanging: Hanging) -> None:
        """End a transaction that no coordinator will end."""
        place = hanging.place
        topic = WritableTxnMarkerTopic(name=TopicName(place.topic), partition_indexes=(i32(place.partition),))
        marker = WritableTxnMarker(
            producer_id=ProducerId(hanging.producer_id),
            producer_epoch=i16(hanging.producer_epoch),
            transaction_result=False,
            topics=(topic,),
            coordinator_epoch=i32(hanging.coordinator_epoch),
        )
        leader = await self._client.leader(place)
        request = WriteTxnMarkersRequest(markers=(marker,))
        await self._client.call(leader.node_id, ApiKey.WRITE_TXN_MARKERS, MARKERS_VERSION, request)

    async def _ask(self, api_key: ApiKey, version: int, request: Any) -> None:
        for _ in range(ATTEMPTS):
            try:
                await self._client.call(self._client.any_node(), api_key, version, request)
            except KafkaError:
                await self._client.pause()
            else:
                return
