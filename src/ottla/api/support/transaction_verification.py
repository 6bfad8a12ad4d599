"""What a producer's first batch in a transaction has to wait for: that the partition belongs to it (KIP-890).

Before the first batch is appended that the log does not know the transaction of, the coordinator is asked,
once for the whole request, about those of its partitions where that is so. A producer that
speaks Produce v12 has not added its partitions by AddPartitionsToTxn: then the coordinator is asked to add
them. What may be appended is for the log to decide: see log/producers/verification.py. Producers without a
transactional id do not come here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.api.support.coordinator_calls import await_reply
from ottla.api.support.produce_scheduler import Steps
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import PROTECTED_TOPICS
from ottla.log.producers.verification import Verification
from ottla.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    UnknownServerError,
)
from ottla.protocol.produce_codec import ProduceRequest
from ottla.protocol.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    decode_header,
)
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.api.support.context import RequestContext, Services

log = logging.getLogger(__name__)

FIRST_THAT_ADDS = 12
"""From this version of Produce on, partitions are added to the transaction by producing to them."""
FIRST_WITH_ABORTABLE = 11
"""From this version on clients know TRANSACTION_ABORTABLE."""
RETRY_S = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05)
"""When to ask again while the producer's last transaction is still being finished."""
MIN_TIMEOUT_S = 1.0

Outcome = Mapping[TopicPartition, KafkaError | None]
Failures = dict[tuple[str | UUID | None, int], KafkaError]
"""Why some partitions may not be appended to, by topic as the request names it."""

_NOTHING_FAILED: Failures = {}


class _VerificationRequest:
    """What is asked of one coordinator."""

    def __init__(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.first_sequences: dict[Partition, int] = {}
        self.verifications: dict[TopicPartition, Verification] = {}

    def begin(self, has_epoch_per_transaction: bool) -> None:
        """Begin the verifications, or begin those again that a marker has dropped in the meantime."""
        for partition, sequence in self.first_sequences.items():
            self.verifications[partition.topic_partition] = partition.log.verifications.begin(
                self.producer_id,
                self.producer_epoch,
                sequence,
                has_epoch_per_transaction=has_epoch_per_transaction,
            )


def must_be_verified(partition: Partition, header: BatchHeader) -> bool:
    """Return whether the log does not know that the batch's transaction includes the partition."""
    return header.is_transactional and not partition.log.producers.has_open_transaction(
        header.producer_id, header.producer_epoch
    )


def verify_partitions(ctx: RequestContext, request: ProduceRequest) -> Steps[Failures]:
    """Have everything confirmed that the logs do not know; return where that failed.

    It is called once the first batch of a request must be verified: mostly that is none.
    """
    assert request.transactional_id is not None
    adds = ctx.version >= FIRST_THAT_ADDS
    must_ask = adds or ctx.services.config.transaction_partition_verification_enable
    question: _VerificationRequest | None = None
    names: dict[TopicPartition, tuple[str | UUID | None, int]] = {}
    failures: Failures = {}
    for topic, index, partition, batch in _partitions(ctx, request):
        header = decode_header(batch)
        if header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) != TRANSACTIONAL_BIT:
            continue
        producer = header.producer_id, header.producer_epoch
        if partition.log.producers.has_open_transaction(*producer):
            continue
        if not must_ask:
            verifications, sequence = partition.log.verifications, header.base_sequence
            verifications.begin(*producer, sequence, has_epoch_per_transaction=adds).confirm()
            continue
        if question is None:
            question = _VerificationRequest(request.transactional_id, *producer)
        if producer != (question.producer_id, question.producer_epoch):
            failures[topic, index] = InvalidProducerIdMapping("a transaction has one producer")
            continue
        question.first_sequences[partition] = header.base_sequence
        names[partition.topic_partition] = topic, index
    if question is None:
        return failures or _NOTHING_FAILED
    try:
        answer = verify_with_coordinator(
            ctx.services,
            question.transactional_id,
            (question.producer_id, question.producer_epoch),
            tuple(names),
            adds=adds,
            timeout_ms=request.timeout_ms,
            begin=partial(question.begin, adds),
        )
        outcome: Outcome = (yield answer) if isawaitable(answer) else answer
    except Exception as error:
        log.error("verifying a transaction of %s failed", request.transactional_id, exc_info=error)
        unknown = UnknownServerError("the broker failed; its log says why")
        outcome = dict.fromkeys(names, unknown)
    for topic_partition, verification in question.verifications.items():
        refusal = outcome.get(topic_partition)
        if refusal is None:
            verification.confirm()
        else:
            failures[names[topic_partition]] = as_produce_error(refusal, ctx.version)
    return failures


def _partitions(
    ctx: RequestContext, request: ProduceRequest
) -> Iterator[tuple[str | UUID | None, int, Partition, memoryview]]:
    """Yield what of a request could be appended; what could not, the append will say."""
    registry = ctx.services.partitions
    for name, topic_id, partitions in request.topics:
        for index, batch in partitions:
            if batch is None or len(batch) < HEADER_BYTES:
                continue
            try:
                if topic_id is None:
                    partition = registry.get(name or "", index)
                else:
                    partition = registry.get_by_id(topic_id, index)
            except KafkaError:
                continue
            if partition.topic_partition.topic not in PROTECTED_TOPICS:
                yield topic_id or name, index, partition, batch


def verify_with_coordinator(
    services: Services,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: tuple[TopicPartition, ...],
    *,
    adds: bool,
    timeout_ms: int,
    begin: Callable[[], None],
) -> Outcome | Awaitable[Outcome]:
    """Ask the coordinator; while it is finishing the producer's last transaction, ask again soon.

    `begin` is called before each question: the last transaction's markers, which end what was begun before
    them, say nothing against an answer to a question that was asked after them. A coordinator on this
    broker mostly answers at once.
    """

    def ask() -> Outcome | Awaitable[Outcome]:
        begin()
        return services.transactions.verify(transactional_id, *producer, partitions, add=adds)

    answer = ask()
    if isawaitable(answer) or _is_busy(answer):
        return _retry_while_busy(answer, ask, partitions, timeout_ms)
    return answer


async def _retry_while_busy(
    answer: Outcome | Awaitable[Outcome],
    ask: Callable[[], Outcome | Awaitable[Outcome]],
    partitions: tuple[TopicPartition, ...],
    timeout_ms: int,
) -> Outcome:
    try:
        async with asyncio.timeout(max(timeout_ms / 1000, MIN_TIMEOUT_S)):
            outcome: Outcome = await await_reply(answer)
            for pause_s in RETRY_S:
                if not _is_busy(outcome):
                    break
                await asyncio.sleep(pause_s)
                outcome = await await_reply(ask())
            return outcome
    except TimeoutError:
        return dict.fromkeys(partitions, RequestTimedOut("the transaction's coordinator does not answer"))
    except KafkaError as error:
        return dict.fromkeys(partitions, error)


def _is_busy(outcome: Outcome) -> bool:
    return any(isinstance(each, ConcurrentTransactions) for each in outcome.values())


def as_produce_error(error: KafkaError, version: int) -> KafkaError:
    """Return the error for a producer whose transaction the coordinator does not confirm.

    Old clients do not expect a coordinator's errors in answer to Produce; of NOT_ENOUGH_REPLICAS all of
    them know that they are to try again.
    """
    match error:
        case ProducerFenced():
            return InvalidProducerEpoch(str(error))
        case CoordinatorLoadInProgress() | CoordinatorNotAvailable() | NotCoordinator() | RequestTimedOut():
            return NotEnoughReplicas(f"the transaction cannot be verified yet: {error}")
        case ConcurrentTransactions() if version < FIRST_THAT_ADDS:
            return NotEnoughReplicas(f"the transaction cannot be verified yet: {error}")
        case InvalidTxnState() if version >= FIRST_WITH_ABORTABLE:
            return TransactionAbortable(str(error))
        case TransactionAbortable() if version < FIRST_WITH_ABORTABLE:
            return InvalidTxnState(str(error))
    return error
