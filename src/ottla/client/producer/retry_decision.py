"""What a broker's answer means for a batch: pure decisions, all in one place."""

from __future__ import annotations

from enum import Enum, auto

from kio.schema.errors import ErrorCode

from ottla.client.cluster import TRANSIENT
from ottla.client.errors import TimedOut, error_for, meaning_of
from ottla.client.producer.batch import Batch
from ottla.client.producer.partition_queue import PartitionQueue
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError

WORTH_ANOTHER_TRY = TRANSIENT | {
    ErrorCode.unknown_topic_or_partition,  # created a moment ago, or deleted and created again
    ErrorCode.unknown_topic_id,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.kafka_storage_error,
    ErrorCode.corrupt_message,  # on the way: what we sent has the right checksum
    ErrorCode.concurrent_transactions,  # the transaction before is not quite over
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
"""After these, the leader is asked for before the next attempt."""

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
"""The broker and the producer disagree on which number comes next."""


class RetryDecision(Enum):
    """What to do with a batch."""

    STORED = auto()
    AGAIN = auto()
    IN_PARTS = auto()
    NEW_EPOCH = auto()
    """Send it again under a new epoch: the broker expects other numbers."""
    FAILED = auto()


def judge(code: int, batch: Batch, queue: PartitionQueue) -> RetryDecision:
    """Return what an error code (0 for none) means for a batch that was under way."""
    if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
        return RetryDecision.STORED
    if code in TOO_LARGE and batch.count > 1:
        return RetryDecision.IN_PARTS
    if code in LOST_STEP and batch.base_sequence >= 0:
        if code == ErrorCode.out_of_order_sequence_number and _waits_for_an_earlier(batch, queue):
            return RetryDecision.AGAIN
        # A transaction that has lost step must be aborted: that is how it gets a new epoch.
        return RetryDecision.FAILED if batch.is_transactional else RetryDecision.NEW_EPOCH
    return RetryDecision.AGAIN if code in WORTH_ANOTHER_TRY else RetryDecision.FAILED


def may_be_stored(code: int, batch: Batch) -> bool:
    """Return whether a batch may be stored in spite of the answer, from this attempt or an earlier one."""
    if code == ErrorCode.out_of_order_sequence_number:
        return False  # what is stored is known by its number
    return batch.may_be_stored or code in PERHAPS_STORED


def _waits_for_an_earlier(batch: Batch, queue: PartitionQueue) -> bool:
    """Return whether a batch before this one is still to be stored."""
    earlier = [*queue.in_flight, *queue.unsent]
    return any(each.order < batch.order for each in earlier if not each.is_settled)


def too_late(queue: PartitionQueue, batch: Batch, timeout_ms: int) -> TimedOut:
    """Return the error of a batch that was not delivered in its time; its cause is what went wrong last."""
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


def explained(partition: TopicPartition, code: int, message: str | None) -> KafkaError:
    """Return the error that a broker answered for a partition, in its words if they say anything."""
    said = message if message and message not in (str(partition), partition.topic) else meaning_of(code)
    return error_for(code, f"{partition}: {said}")
