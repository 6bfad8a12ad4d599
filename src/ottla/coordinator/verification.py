"""Asks the coordinator on another broker whether partitions are in a transaction (AddPartitionsToTxn v5)."""

from __future__ import annotations

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.errors import ErrorCode

from ottla.common.ids import TopicPartition
from ottla.coordinator.markers import MarkerSender
from ottla.coordinator.transaction.machine import Verdicts
from ottla.coordinator.transaction.transaction import Producer
from ottla.protocol.errors import ERRORS, CoordinatorNotAvailable, KafkaError, UnknownServerError
from ottla.protocol.types import ProducerId, TopicName, TransactionalId, i16, i32


async def ask(
    sender: MarkerSender,
    node_id: int,
    transactional_id: str,
    producer: Producer,
    wanted: frozenset[TopicPartition],
    add: bool,
) -> Verdicts:
    """Return what stands against each partition; with `add` they are added if they are not in it yet."""
    request = _request(transactional_id, producer, wanted, add)
    try:
        response = await sender.send(node_id, request)
    except (OSError, KafkaError) as error:  # whoever asked knows nothing of brokers among themselves
        raise CoordinatorNotAvailable(f"broker {node_id} does not answer: {error}") from error
    if response.error_code != ErrorCode.none:
        raise _error(response.error_code)
    verdicts: Verdicts = dict.fromkeys(wanted, UnknownServerError(f"broker {node_id} did not answer for it"))
    for result in response.results_by_transaction:
        for topic in result.topic_results:
            for each in topic.results_by_partition:
                code = each.partition_error_code
                verdict = None if code == ErrorCode.none else _error(code)
                verdicts[TopicPartition(topic.name, each.partition_index)] = verdict
    return verdicts


def _request(
    transactional_id: str, producer: Producer, wanted: frozenset[TopicPartition], add: bool
) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[i32]] = {}
    for topic, index in sorted(wanted):
        topics.setdefault(topic, []).append(i32(index))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=TransactionalId(transactional_id),
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
        verify_only=not add,
        topics=tuple(
            AddPartitionsToTxnTopic(name=TopicName(name), partitions=tuple(indexes))
            for name, indexes in topics.items()
        ),
    )
    return AddPartitionsToTxnRequest(transactions=(transaction,))


def _error(code: ErrorCode) -> KafkaError:
    return ERRORS.get(code, UnknownServerError)(f"the coordinator says {code.name}")
