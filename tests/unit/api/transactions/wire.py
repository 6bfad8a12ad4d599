"""A transactional client by hand: the requests that it sends, with what matters of the answers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

from kio.schema.add_offsets_to_txn.v4 import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3 import AddPartitionsToTxnRequest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.end_txn.v5 import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6 import InitProducerIdRequest
from kio.schema.produce.v12.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.txn_offset_commit.v5 import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.types import GroupId, ProducerId, TopicName, TransactionalId, i16, i32, i64

TRANSACTIONAL_ID = TransactionalId("t")


class TransactionalClient:
    """One producer with a transactional id."""

    def __init__(self, bench: CoordinatorBench) -> None:
        self.bench = bench
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}

    async def init(self) -> None:
        """Get an id and an epoch."""
        request = InitProducerIdRequest(
            transactional_id=TRANSACTIONAL_ID, transaction_timeout=cast(Any, timedelta(seconds=60))
        )
        response = await self.bench.ask(request)
        assert response.error_code == ErrorCode.none
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self.sequences.clear()

    async def add(self, *indexes: int) -> None:
        """Add partitions, as clients of the classic protocol do."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=ProducerId(self.producer_id),
            v3_and_below_producer_epoch=i16(self.epoch),
            v3_and_below_topics=(
                AddPartitionsToTxnTopic(name=TopicName("orders"), partitions=tuple(map(i32, indexes))),
            ),
        )
        response = await self.bench.ask(request)
        for topic in response.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                assert each.partition_error_code == ErrorCode.none

    async def add_offsets(self, group_id: str = "g") -> None:
        """Add the partition of a group, as clients of the classic protocol do."""
        request = AddOffsetsToTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            group_id=GroupId(group_id),
        )
        assert (await self.bench.ask(request)).error_code == ErrorCode.none

    def request(self, *indexes: int, named: bool = True, **fields: Any) -> ProduceRequest:
        """Return a request with one record for each partition."""
        data = []
        for index in indexes:
            sequence = self.sequences.get(index, 0)
            self.sequences[index] = sequence + 1
            values = {
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "base_sequence": sequence,
                "transactional": True,
                **fields,
            }
            records = bytes(encode_batch([Record(0, 0, b"key", b"%d" % sequence)], **values))
            data.append(PartitionProduceData(index=i32(index), records=cast(Any, records)))
        return ProduceRequest(
            transactional_id=TRANSACTIONAL_ID if named else None,
            acks=i16(-1),
            timeout=cast(Any, timedelta(seconds=5)),
            topic_data=(TopicProduceData(name=TopicName("orders"), partition_data=tuple(data)),),
        )

    async def produce(self, *indexes: int, version: int = 11, **fields: Any) -> list[ErrorCode]:
        """Produce one record to each partition."""
        response = await self.bench.ask(self.request(*indexes, **fields), version)
        return [each.error_code for topic in response.responses for each in topic.partition_responses]

    async def commit_offset(
        self, offset: int, *, version: int = 5, group_id: str = "g", topic: str = "orders", **fields: Any
    ) -> ErrorCode:
        """Commit the offset of partition 0 of a topic in the transaction."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(offset), committed_metadata="note"
        )
        request = TxnOffsetCommitRequest(
            transactional_id=TRANSACTIONAL_ID,
            group_id=GroupId(group_id),
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            topics=(TxnOffsetCommitRequestTopic(name=TopicName(topic), partitions=(partition,)),),
            **fields,
        )
        response = await self.bench.ask(request, version)
        code: ErrorCode = response.topics[0].partitions[0].error_code
        return code

    async def end(self, *, commit: bool, version: int = 4) -> None:
        """End the transaction, and wait until its markers are written."""
        request = EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.epoch),
            committed=commit,
        )
        response = await self.bench.ask(request, version)
        assert response.error_code == ErrorCode.none
        if version >= 5:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()
        async with asyncio.timeout(2):
            while (await self.bench.transactions.describe("t")).state.is_ending:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
