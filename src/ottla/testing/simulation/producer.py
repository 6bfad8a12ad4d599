"""A simulated idempotent producer: keeps batches in flight, retries until a deadline, records the history.

It works as Kafka's producers do: failed batches are resent in order; after one was given up, the epoch is
bumped, so that it cannot be appended after its successors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4 import InitProducerIdRequest

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.primitives import encode_string
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.schema.messages import response_decoder
from ottla.testing.history import History
from ottla.testing.simulation.client import TIMEOUT_MS, SimClient
from ottla.testing.simulation.loop import EPOCH_MS
from ottla.wire.connection import milliseconds

PRODUCE_VERSION, INIT_VERSION = 8, 4
BATCHES_UNDER_WAY = 3
THINK_S = (0.02, 0.22)
TIMEOUT_S = (2.0, 12.0)

NEVER_APPENDED = frozenset({ErrorCode.not_enough_replicas, ErrorCode.unknown_topic_or_partition})
"""Errors after which the records are certainly not in the log. (NOT_LEADER_OR_FOLLOWER is none of them.)"""

_HEAD = Struct(">hhii")
_PARTITION = Struct(">iii")


@dataclass
class _Batch:
    number: int
    values: list[bytes]
    sequence: int
    deadline_s: float
    is_certain: bool = True


@dataclass
class _PartitionQueue:
    """The pending batches of one partition, and its producer id and epoch."""

    place: TopicPartition
    producer_id: int = -1
    producer_epoch: int = 0
    next_sequence: int = 0


class SimProducer:
    """Sends until it is stopped; then finishes its pending batches."""

    def __init__(
        self,
        client: SimClient,
        history: History,
        name: str,
        places: Sequence[TopicPartition],
        *,
        acks: int = -1,
    ) -> None:
        self.problems: list[str] = []
        """Errors that no producer should ever get."""
        self.is_stopping = False
        self._client = client
        self._history = history
        self._name = name
        self._places = places
        self._acks = acks
        self._values = 0

    async def run(self) -> None:
        """Send to every partition, until `is_stopping`."""
        await asyncio.gather(*(self._fill(_PartitionQueue(place)) for place in self._places))

    async def _fill(self, queue: _PartitionQueue) -> None:
        chance = self._client.chance
        while not self.is_stopping:
            await asyncio.sleep(chance.uniform(*THINK_S))
            if queue.producer_id < 0:
                queue.producer_id = await self._new_producer_id()
            await self._deliver(
                queue, [self._new_batch(queue) for _ in range(chance.randint(1, BATCHES_UNDER_WAY))]
            )

    def _new_batch(self, queue: _PartitionQueue) -> _Batch:
        chance = self._client.chance
        values = []
        for _ in range(chance.choice((1, 1, 2, 4))):
            self._values += 1
            values.append(self._new_value(f"{self._name}.{queue.place.partition}.{self._values}"))
        number = self._history.sent(self._name, queue.place, values, is_safe=self._acks == -1)
        sequence, queue.next_sequence = queue.next_sequence, queue.next_sequence + len(values)
        return _Batch(number, values, sequence, self._client.loop.now + chance.uniform(*TIMEOUT_S))

    def _new_value(self, name: str) -> bytes:
        """Return what the history calls the next record."""
        return name.encode()

    async def _deliver(self, queue: _PartitionQueue, pending: list[_Batch]) -> None:
        """Send batches, again and again, until each is acknowledged or given up."""
        client = self._client
        while pending:
            try:
                leader = await client.leader(queue.place)
                answers = await asyncio.gather(
                    *(self._attempt(queue, leader.node_id, batch) for batch in pending)
                )
            except KafkaError:
                answers = []
            left = []
            for batch, answer in zip(pending, answers, strict=False):
                if answer is None:
                    left.append(batch)
                else:
                    self._history.acked(batch.number, answer)
            pending = left if answers else pending
            if pending and pending[0].deadline_s < client.loop.now:
                for batch in pending:
                    self._history.failed(batch.number, is_certain=batch.is_certain)
                queue.producer_epoch += 1
                queue.next_sequence = 0
                return
            if pending:
                client.forget(queue.place)
                await client.pause()

    async def _attempt(self, queue: _PartitionQueue, node_id: int, batch: _Batch) -> int | None:
        """Send a batch once; return its base offset (-1: unknown), or None if it must be retried."""
        body = self._encode(queue, batch)
        try:
            frame, at = await self._client.peers.exchange(
                node_id, ApiKey.PRODUCE, PRODUCE_VERSION, body, timeout_ms=TIMEOUT_MS, channel=self._name
            )
        except KafkaError:
            batch.is_certain = False
            return None
        response = response_decoder(ApiKey.PRODUCE, PRODUCE_VERSION, PRODUCE_VERSION)(frame, at)
        result = response.responses[0].partition_responses[0]
        code = ErrorCode(result.error_code)
        if code is ErrorCode.none:
            return int(result.base_offset)
        if code is ErrorCode.duplicate_sequence_number:
            return -1
        if code not in NEVER_APPENDED:
            batch.is_certain = False
        self._check_code(queue, batch, code)
        return None

    def _check_code(self, queue: _PartitionQueue, batch: _Batch, code: ErrorCode) -> None:
        """Take note of answers that mean that something is broken."""

    async def _new_producer_id(self) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout=milliseconds(60_000))
        while True:
            try:
                response = await self._client.call(
                    self._client.any_node(), ApiKey.INIT_PRODUCER_ID, INIT_VERSION, request
                )
                if response.error_code is ErrorCode.none:
                    return int(response.producer_id)
            except KafkaError:
                pass
            await self._client.pause()

    def _encode(self, queue: _PartitionQueue, batch: _Batch) -> bytes:
        now_ms = EPOCH_MS + int(self._client.loop.now * 1000)
        records = encode_batch(
            [self._record(at, now_ms, value) for at, value in enumerate(batch.values)],
            producer_id=queue.producer_id,
            producer_epoch=queue.producer_epoch,
            base_sequence=batch.sequence,
        )
        topic, index = queue.place
        head = _HEAD.pack(-1, self._acks, TIMEOUT_MS, 1)
        return head + encode_string(topic) + _PARTITION.pack(1, index, len(records)) + records

    def _record(self, offset: int, now_ms: int, value: bytes) -> Record:
        """Return the record that the history calls `value`."""
        return Record(offset, now_ms, None, value)
