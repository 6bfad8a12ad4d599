"""Transactions: list and describe them, find hanging ones, abort them.

A transaction has two sides. Its coordinator knows the transactional id and what has been decided; the
partitions know which producers have written records that are neither committed nor aborted. One that is
open in a partition and of which no coordinator knows hangs: nothing will ever end it, and readers of
committed records stop before it. It takes a marker by hand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from kio.schema.describe_producers.v0 import DescribeProducersRequest, DescribeProducersResponse
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest, DescribeTransactionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6 import FindCoordinatorRequest, FindCoordinatorResponse
from kio.schema.init_producer_id.v4 import InitProducerIdRequest, InitProducerIdResponse
from kio.schema.list_transactions.v2 import ListTransactionsRequest, ListTransactionsResponse
from kio.schema.write_txn_markers.v1 import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kio.schema.write_txn_markers.v1.request import WritableTxnMarker, WritableTxnMarkerTopic

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.types import ProducerId, TopicName, TransactionalId, i8, i16, i32, i64
from ottla.wire.connection import Connection, milliseconds


@dataclass(frozen=True, slots=True)
class PartitionProducer:
    """A producer of a partition; `transaction_start` is None unless it has a transaction open there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[PartitionProducer]]:
    """Return the producer states of partitions, from their leaders."""
    found = {}
    for partition in partitions:

        async def ask(partition: TopicPartition = partition) -> list[PartitionProducer]:
            return await _ask(cluster, partition)

        found[partition] = await cluster.retrying(ask)
    return found


async def _ask(cluster: Cluster, partition: TopicPartition) -> list[PartitionProducer]:
    wanted = TopicRequest(name=TopicName(partition.topic), partition_indexes=(i32(partition.partition),))
    connection = await cluster.broker(await cluster.leader(partition))
    request = DescribeProducersRequest(topics=(wanted,))
    response = await connection.request(request, DescribeProducersResponse)
    result = response.topics[0].partitions[0]
    if result.error_code:
        cluster.forget(partition.topic)
    raise_for(result.error_code, result.error_message or str(partition))
    return [
        PartitionProducer(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in result.active_producers
    ]


PREPARED = "Prepared"
"""What Ottla lists prepared two-phase transactions by; other brokers do not know it."""

_TRANSACTION = i8(1)
_TIMEOUT_MS = 60_000
_NOT_COORDINATOR = frozenset({ErrorCode.not_coordinator})
_BUSY = frozenset({ErrorCode.not_coordinator, ErrorCode.concurrent_transactions})
_MILLISECOND = timedelta(milliseconds=1)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    is_prepared: bool = False


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of a transactional id at its coordinator; `start_ms` is None before its first one."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator: int
    is_prepared: bool = False

    def knows(self, opened: OpenTransaction) -> bool:
        """Return whether the coordinator will end a transaction that is open in a partition.

        It will not if the partition has seen a higher epoch: then the coordinator has lost its end.
        """
        return (
            opened.producer_id == self.producer_id
            and opened.producer_epoch <= self.producer_epoch
            and opened.partition in self.partitions
        )


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp_ms: int
    coordinator_epoch: int


class Transactions:
    """Asks brokers about transactions, and ends them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def list(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """Return the transactional ids that match all filters, from all brokers."""

        def request(states: Iterable[str]) -> ListTransactionsRequest:
            return ListTransactionsRequest(
                state_filters=tuple(states),
                producer_id_filters=tuple(map(ProducerId, producer_ids)),
                duration_filter=i64(-1 if longer_than_ms is None else longer_than_ms),
                transactional_id_pattern=pattern,
            )

        async def attempt() -> list[ListedTransaction]:
            await self.cluster.refresh([])
            found: dict[str, ListedTransaction] = {}
            for node_id in self.cluster.brokers:
                connection = await self.cluster.broker(node_id)
                prepared = await _prepared(connection, request((PREPARED,)))
                response = await connection.request(request(states), ListTransactionsResponse)
                raise_for(response.error_code, f"broker {node_id} cannot list its transactions")
                for each in response.transaction_states:
                    key = each.transactional_id
                    found[key] = ListedTransaction(
                        key, each.producer_id, each.transaction_state, node_id, key in prepared
                    )
            return [found[key] for key in sorted(found)]

        return await self.cluster.retrying(attempt)

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """Describe a transactional id; raise TransactionalIdNotFound if it does not exist."""
        request = DescribeTransactionsRequest(transactional_ids=(TransactionalId(transactional_id),))

        async def ask(node_id: int, connection: Connection) -> TransactionDescription:
            (found,) = (await connection.request(request, DescribeTransactionsResponse)).transaction_states
            raise_for(found.error_code, transactional_id)
            prepared = await _prepared(connection, ListTransactionsRequest(state_filters=(PREPARED,)))
            start_ms = int(found.transaction_start_time.timestamp() * 1000)
            return TransactionDescription(
                transactional_id,
                found.transaction_state,
                found.producer_id,
                found.producer_epoch,
                found.transaction_timeout // _MILLISECOND,
                start_ms if start_ms > 0 else None,
                tuple(
                    TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions
                ),
                node_id,
                transactional_id in prepared,
            )

        return await self._ask(transactional_id, ask)

    async def abort(self, transactional_id: str) -> None:
        """Abort the open or prepared transaction of a transactional id, and fence its producer."""
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(transactional_id), transaction_timeout=milliseconds(_TIMEOUT_MS)
        )

        async def ask(_: int, connection: Connection) -> None:
            response = await connection.request(request, InitProducerIdResponse)
            raise_for(response.error_code, transactional_id)

        await self._ask(transactional_id, ask, also=_BUSY)

    async def open_in(self, partitions: Iterable[TopicPartition]) -> tuple[OpenTransaction, ...]:
        """Return the open transactions of partitions, from their leaders."""
        found: tuple[OpenTransaction, ...] = ()
        for partition in partitions:
            found += await self.cluster.retrying(partial(self._open_in, partition))
        return found

    async def hanging(
        self, partitions: Iterable[TopicPartition], *, older_than_ms: int, now_ms: int
    ) -> tuple[OpenTransaction, ...]:
        """Return the hanging transactions of partitions: old, and unknown to any coordinator."""
        opened = [
            each for each in await self.open_in(partitions) if now_ms - each.last_timestamp_ms > older_than_ms
        ]
        if not opened:
            return ()
        ids = {each.producer_id for each in opened}
        listed = await self.list(producer_ids=ids)
        described = [await self.describe(each.transactional_id) for each in listed]
        known = {each.producer_id: each for each in described}
        return tuple(
            each for each in opened if (found := known.get(each.producer_id)) is None or not found.knows(each)
        )

    async def abort_in(self, opened: OpenTransaction) -> None:
        """Write an abort marker for a transaction that no coordinator will end."""
        topic, index = opened.partition
        marker = WritableTxnMarker(
            producer_id=ProducerId(opened.producer_id),
            producer_epoch=i16(opened.producer_epoch),
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=(i32(index),)),),
            coordinator_epoch=i32(max(0, opened.coordinator_epoch)),
        )
        request = WriteTxnMarkersRequest(markers=(marker,))

        async def attempt() -> None:
            connection = await self.cluster.broker(await self.cluster.leader(opened.partition))
            response = await connection.request(request, WriteTxnMarkersResponse)
            raise_for(response.markers[0].topics[0].partitions[0].error_code, str(opened.partition))

        await self.cluster.retrying(attempt)

    async def coordinator(self, transactional_id: str) -> int:
        """Return the node id of the broker that coordinates a transactional id."""
        connection = await self.cluster.any_broker()
        request = FindCoordinatorRequest(coordinator_keys=(transactional_id,), key_type=_TRANSACTION)
        (found,) = (await connection.request(request, FindCoordinatorResponse)).coordinators
        raise_for(found.error_code, found.error_message or transactional_id)
        return found.node_id

    async def _open_in(self, partition: TopicPartition) -> tuple[OpenTransaction, ...]:
        wanted = TopicRequest(name=TopicName(partition.topic), partition_indexes=(i32(partition.partition),))
        connection = await self.cluster.broker(await self.cluster.leader(partition))
        request = DescribeProducersRequest(topics=(wanted,))
        response = await connection.request(request, DescribeProducersResponse)
        result = response.topics[0].partitions[0]
        raise_for(result.error_code, result.error_message or str(partition))
        return tuple(
            OpenTransaction(
                partition,
                each.producer_id,
                each.producer_epoch,
                each.current_txn_start_offset,
                each.last_timestamp,
                each.coordinator_epoch,
            )
            for each in result.active_producers
            if each.current_txn_start_offset >= 0
        )

    async def _ask(
        self,
        transactional_id: str,
        ask: Callable[[int, Connection], Awaitable[Result]],
        also: frozenset[ErrorCode] = _NOT_COORDINATOR,
    ) -> Result:
        async def attempt() -> Result:
            node_id = await self.coordinator(transactional_id)
            return await ask(node_id, await self.cluster.broker(node_id))

        return await self.cluster.retrying(attempt, also=also)


async def _prepared(connection: Connection, request: ListTransactionsRequest) -> frozenset[str]:
    """Return the ids whose transactions are prepared; none if the broker is not one of ours."""
    response = await connection.request(request, ListTransactionsResponse)
    raise_for(response.error_code, "the broker cannot list its transactions")
    if PREPARED in response.unknown_state_filters:
        return frozenset()
    return frozenset(each.transactional_id for each in response.transaction_states)


def prefix_pattern(prefix: str) -> str:
    """Return the regular expression of all ids that begin with `prefix`."""
    return "".join(each if each.isalnum() or not each.isascii() else f"\\{each}" for each in prefix) + ".*"
