"""Decides, as pure code, what an error code means for a batch: complete, retry or fail it."""

from __future__ import annotations

from enum import Enum, auto

from kio.schema.errors import ErrorCode

from ottla.client.cluster import TRANSIENT
from ottla.client.errors import TimedOut, error_for, meaning_of
from ottla.client.producer.batch import Batch
from ottla.client.producer.partition_queue import PartitionQueue
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError

RETRIABLE = TRANSIENT | {
    ErrorCode.unknown_topic_or_partition,  # just created, or deleted and recreated
    ErrorCode.unknown_topic_id,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.kafka_storage_error,
    ErrorCode.corrupt_message,  # corrupted in transit: the checksum was right when it was sent
    ErrorCode.concurrent_transactions,  # the previous transaction is not completed yet
}

STALE_METADATA = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.replica_not_available,
        ErrorCode.broker_not_available,
    }
)
"""Errors after which the leader is looked up before the next attempt."""

NO_SUCH_TOPIC = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})

PERHAPS_STORED = frozenset({ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append})

TOO_LARGE = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})

LOST_STEP = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    }
)
"""The broker expects another sequence number."""


class RetryDecision(Enum):
    """What to do with a batch."""

    STORED = auto()
    AGAIN = auto()
    IN_PARTS = auto()
    NEW_EPOCH = auto()
    """Retry it with a new epoch: the broker expects other sequence numbers."""
    FAILED = auto()


def decide(code: int, batch: Batch, queue: PartitionQueue) -> RetryDecision:
    """Return what to do with a batch after an error code (0: none)."""
    if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
        return RetryDecision.STORED
    if code in TOO_LARGE and batch.count > 1:
        return RetryDecision.IN_PARTS
    if code in LOST_STEP and batch.base_sequence >= 0:
        if code == ErrorCode.out_of_order_sequence_number and _waits_for_an_earlier(batch, queue):
            return RetryDecision.AGAIN
        # A transaction with a wrong sequence must be aborted, which gives it a new epoch.
        return RetryDecision.FAILED if batch.is_transactional else RetryDecision.NEW_EPOCH
    return RetryDecision.AGAIN if code in RETRIABLE else RetryDecision.FAILED


def may_be_stored(code: int, batch: Batch) -> bool:
    """Return whether a batch may be stored despite the error, by this attempt or an earlier one."""
    if code == ErrorCode.out_of_order_sequence_number:
        return False  # the broker recognizes stored batches by their sequence number
    return batch.may_be_stored or code in PERHAPS_STORED


def _waits_for_an_earlier(batch: Batch, queue: PartitionQueue) -> bool:
    """Return whether an earlier batch of the partition is not stored yet."""
    earlier = [*queue.in_flight, *queue.unsent]
    return any(each.order < batch.order for each in earlier if not each.is_settled)


def delivery_timeout_error(queue: PartitionQueue, batch: Batch, timeout_ms: int) -> TimedOut:
    """Return the error of a batch that exceeded delivery_timeout_ms; its cause is the last failure."""
    reason = batch.last_error or queue.trouble
    why = "the broker has not answered" if queue.in_flight else "there was no time to send it"
    if isinstance(reason, KafkaError) and reason.code in NO_SUCH_TOPIC:
        why = (
            f"the cluster has no partition {batch.partition} any more. If the topic was deleted, stop sending"
            " to it or create it again, with as many partitions; what is sent then arrives"
        )
    elif reason is not None:
        why = str(reason) or type(reason).__name__
    what = "1 record" if batch.count == 1 else f"{batch.count} records"
    late = TimedOut(f"{what} for {batch.partition} not delivered within {timeout_ms} ms: {why}")
    late.__cause__ = reason
    return late


def broker_error(partition: TopicPartition, code: int, message: str | None) -> KafkaError:
    """Return the broker's error for a partition, with its message if it has one."""
    said = message if message and message not in (str(partition), partition.topic) else meaning_of(code)
    return error_for(code, f"{partition}: {said}")
