"""The requests of one transactional client in a simulation, in either generation of the protocol.

Every call is sent once and returns what the broker said; UNANSWERED without a response, in which case it
may have happened or not, or may still happen. Some requests are sent twice, on connections of their own:
the second may overtake the first. With `transaction.version=2` it may also come much later, when
the transaction has ended, which must do no harm. In the classic protocol that does (docs/transactions.md),
so there a client waits for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from kio.schema.add_offsets_to_txn.v3 import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3 import AddPartitionsToTxnRequest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.end_txn.v5 import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3 import FindCoordinatorRequest
from kio.schema.init_producer_id.v6 import InitProducerIdRequest
from kio.schema.produce.v12.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.txn_offset_commit.v5 import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from ottla.common.ids import TopicPartition
from ottla.coordinator.transaction.transaction import Producer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.own_messages import PrepareTransactionRequest
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.protocol.types import GroupId, ProducerId, TopicName, TransactionalId, i8, i16, i32, i64
from ottla.testing.simulation.client import TIMEOUT_MS, SimClient
from ottla.testing.simulation.loop import EPOCH_MS
from ottla.testing.simulation.transactions.attempts import SOURCE
from ottla.wire.connection import milliseconds

if TYPE_CHECKING:
    from kio.static.primitive import Records

UNANSWERED = ErrorCode.network_exception
TRANSACTION, GROUP = 1, 0
"""Kinds of coordinators."""
TWICE = 0.08
"""How often a request is sent a second time, though nothing is wrong."""
LATE_S = (0.0, 0.0, 0.02, 0.4, 1.5)
"""How long after the first."""


class TransactionCalls:
    """What one client sends for one transactional id."""

    def __init__(self, client: SimClient, name: str, transactional_id: str, *, is_classic: bool) -> None:
        self.client = client
        self.is_classic = is_classic
        self.repeats = 0
        """How many requests were sent twice: one of them may be refused because of the other."""
        self._name = name
        self._id = TransactionalId(transactional_id)
        self._coordinators: dict[int, int] = {}

    async def init(
        self,
        timeout_ms: int,
        expected: Producer | None = None,
        *,
        two_phase: bool = False,
        keep: bool = False,
    ) -> tuple[ErrorCode, Producer, Producer]:
        """Ask who to be; returns that, and whose transaction was found open, if it is kept."""
        held = expected or Producer(-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout=milliseconds(timeout_ms),
            producer_id=ProducerId(held.producer_id),
            producer_epoch=i16(held.epoch),
            enable2_pc=two_phase,
            keep_prepared_txn=keep,
        )
        answer = await self._ask(TRANSACTION, ApiKey.INIT_PRODUCER_ID, 6, request, may_repeat=False)
        if answer is None:
            return UNANSWERED, held, held
        ongoing = Producer(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        return answer.error_code, Producer(answer.producer_id, answer.producer_epoch), ongoing

    async def add_partitions(self, producer: Producer, places: Sequence[TopicPartition]) -> ErrorCode:
        """Add partitions to the transaction (classic)."""
        topics: dict[str, list[i32]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(i32(place.partition))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=ProducerId(producer.producer_id),
            v3_and_below_producer_epoch=i16(producer.epoch),
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=TopicName(name), partitions=tuple(indexes))
                for name, indexes in topics.items()
            ),
        )
        answer = await self._ask(TRANSACTION, ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        if answer is None:
            return UNANSWERED
        codes = [
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]
        return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)

    async def produce(
        self, producer: Producer, place: TopicPartition, values: Sequence[bytes], sequence: int
    ) -> ErrorCode:
        """Send one batch to the leader of its partition."""
        now_ms = EPOCH_MS + int(self.client.loop.now * 1000)
        batch = encode_batch(
            [Record(at, now_ms, None, value) for at, value in enumerate(values)],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=i32(place.partition), records=cast("Records", batch))
        request = ProduceRequest(
            transactional_id=self._id,
            acks=i16(-1),
            timeout=milliseconds(TIMEOUT_MS),
            topic_data=(TopicProduceData(name=TopicName(place.topic), partition_data=(data,)),),
        )
        try:
            leader = await self.client.leader(place)
        except KafkaError:
            return UNANSWERED
        version = 11 if self.is_classic else 12
        answer = await self._send(leader.node_id, ApiKey.PRODUCE, version, 12, request)
        if answer is None:
            self.client.forget(place)
            return UNANSWERED
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.not_leader_or_follower:
            self.client.forget(place)
        return code

    async def add_offsets(self, producer: Producer) -> ErrorCode:
        """Add the group to the transaction (classic)."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            group_id=GroupId(self._id),
        )
        answer = await self._ask(TRANSACTION, ApiKey.ADD_OFFSETS_TO_TXN, 3, request)
        return UNANSWERED if answer is None else answer.error_code

    async def commit_offset(self, producer: Producer, offset: int) -> ErrorCode:
        """Commit the offset of the group in the transaction."""
        at = TxnOffsetCommitRequestPartition(
            partition_index=i32(SOURCE.partition), committed_offset=i64(offset), committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=GroupId(self._id),
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            topics=(TxnOffsetCommitRequestTopic(name=TopicName(SOURCE.topic), partitions=(at,)),),
        )
        version = 3 if self.is_classic else 5
        answer = await self._ask(GROUP, ApiKey.TXN_OFFSET_COMMIT, version, request, written_as=5)
        return UNANSWERED if answer is None else answer.topics[0].partitions[0].error_code

    async def end(self, producer: Producer, *, commit: bool) -> tuple[ErrorCode, Producer]:
        """End the transaction; returns what the client is from now on, too."""
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            committed=commit,
        )
        version = 3 if self.is_classic else 5
        answer = await self._ask(TRANSACTION, ApiKey.END_TXN, version, request, written_as=5)
        if answer is None:
            return UNANSWERED, producer
        if self.is_classic or answer.error_code is not ErrorCode.none:
            return answer.error_code, producer
        return answer.error_code, Producer(answer.producer_id, answer.producer_epoch)

    async def prepare(self, producer: Producer) -> ErrorCode:
        """Let the transaction wait for its end."""
        request = PrepareTransactionRequest(
            transactional_id=self._id,
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
        )
        answer = await self._ask(TRANSACTION, ApiKey.PREPARE_TRANSACTION, 0, request)
        return UNANSWERED if answer is None else answer.error_code

    # Sending

    async def coordinator(self, kind: int) -> int | None:
        """Return who coordinates the transactional id, or the group of the same name."""
        known = self._coordinators.get(kind)
        if known is not None:
            return known
        request = FindCoordinatorRequest(key=self._id, key_type=i8(kind))
        try:
            node_id = self.client.any_node()
            found = await self.client.call(node_id, ApiKey.FIND_COORDINATOR, 3, request, self._name)
        except KafkaError:
            return None
        if found.error_code is not ErrorCode.none:
            return None
        self._coordinators[kind] = int(found.node_id)
        return int(found.node_id)

    def forget(self) -> None:
        """Look for the coordinators again."""
        self._coordinators.clear()

    async def _ask(
        self,
        kind: int,
        api_key: int,
        version: int,
        request: Any,
        *,
        written_as: int | None = None,
        may_repeat: bool = True,
    ) -> Any:
        node_id = await self.coordinator(kind)
        if node_id is None:
            return None
        as_version = version if written_as is None else written_as
        answer = await self._send(node_id, api_key, version, as_version, request, may_repeat=may_repeat)
        if answer is None:
            self.forget()
        return answer

    async def _send(
        self,
        node_id: int,
        api_key: int,
        version: int,
        as_version: int,
        request: Any,
        *,
        may_repeat: bool = True,
    ) -> Any:
        """Send a request, maybe twice; return the first answer, None if there is none."""
        body = request_encoder(api_key, version, as_version)(request)
        chance = self.client.chance
        if not may_repeat or chance.random() > TWICE:
            return await self._send_once(node_id, api_key, version, body, self._name)
        self.repeats += 1
        late_s = 0.0 if self.is_classic else chance.choice(LATE_S)
        again = self.client.process.spawn(self._send_again(node_id, api_key, version, body, late_s))
        answer = await self._send_once(node_id, api_key, version, body, self._name)
        if self.is_classic and await asyncio.shield(again) is None:
            return None  # it may still come
        return answer

    async def _send_again(self, node_id: int, api_key: int, version: int, body: bytes, late_s: float) -> Any:
        await asyncio.sleep(late_s)
        return await self._send_once(node_id, api_key, version, body, f"{self._name} again")

    async def _send_once(self, node_id: int, api_key: int, version: int, body: bytes, channel: str) -> Any:
        try:
            frame, at = await self.client.peers.exchange(
                node_id, api_key, version, body, timeout_ms=TIMEOUT_MS, channel=channel
            )
        except KafkaError:
            return None
        return response_decoder(api_key, version, version)(frame, at)
