"""How one batch reaches its broker: find the leader, send, try again while that can help.

With acks=all, batches carry a producer id and a sequence number, so that a batch which is sent
twice (the first answer was lost) is stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4 import InitProducerIdRequest, InitProducerIdResponse
from kio.schema.produce.v11 import ProduceRequest, ProduceResponse
from kio.schema.produce.v11.request import PartitionProduceData, TopicProduceData
from kio.static.primitive import Records

from ottla.client.cluster import Cluster
from ottla.client.connection import milliseconds
from ottla.client.errors import error_for, raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.types import TopicName, i16, i32

ACKS_ALL = -1

_WORTH_ANOTHER_TRY = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,  # a topic that was created a moment ago
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
    }
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What an idempotent producer signs its batches with."""

    producer_id: int = -1
    producer_epoch: int = -1


class Delivery:
    """Brings batches to the leaders of their partitions."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 60_000,
    ) -> None:
        self.is_idempotent = acks == ACKS_ALL
        self._cluster = cluster
        self._acks = acks
        self._request_timeout_ms = request_timeout_ms
        self._delivery_timeout_ms = delivery_timeout_ms

    async def deliver(
        self, partition: TopicPartition, batch: bytes | bytearray, record_count: int
    ) -> Sequence[int]:
        """Send one encoded batch and return the offsets of its records (-1 where nobody says)."""
        data = PartitionProduceData(index=i32(partition.partition), records=cast("Records", bytes(batch)))
        request = ProduceRequest(
            acks=i16(self._acks),
            timeout=milliseconds(self._request_timeout_ms),
            topic_data=(TopicProduceData(name=TopicName(partition.topic), partition_data=(data,)),),
        )
        base_offset = await self._cluster.retrying(
            lambda: self._attempt(partition, request),
            also=_WORTH_ANOTHER_TRY,
            patient=True,
            timeout_ms=self._delivery_timeout_ms,
        )
        return [-1] * record_count if base_offset < 0 else range(base_offset, base_offset + record_count)

    async def new_identity(self) -> Identity:
        """Ask for a producer id; for a producer that is not idempotent, return the empty one."""
        if not self.is_idempotent:
            return Identity()
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout=milliseconds(self._request_timeout_ms)
        )

        async def attempt() -> Identity:
            connection = await self._cluster.any_broker()
            response = await connection.request(request, InitProducerIdResponse)
            raise_for(response.error_code, "the broker gave no producer id")
            return Identity(response.producer_id, response.producer_epoch)

        return await self._cluster.retrying(attempt, patient=True, timeout_ms=self._delivery_timeout_ms)

    async def _attempt(self, partition: TopicPartition, request: ProduceRequest) -> int:
        connection = await self._cluster.broker(await self._cluster.leader(partition))
        if self._acks == 0:
            await connection.send_only(request)
            return -1
        patience_ms = self._request_timeout_ms + 5_000
        response = await connection.request(request, ProduceResponse, timeout_ms=patience_ms)
        result = response.responses[0].partition_responses[0]
        if result.error_code == ErrorCode.duplicate_sequence_number:
            return -1  # stored by an attempt whose answer was lost
        if result.error_code:
            self._cluster.forget(partition.topic)
            raise error_for(result.error_code, result.error_message)
        return result.base_offset
