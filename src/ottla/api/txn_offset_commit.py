"""TxnOffsetCommit: keep how far a group has read, if the producer's transaction commits.

v1 announces throttling; v2 adds the leader epoch; v3 is flexible and says which member commits, so
that one that has been fenced is refused; v4 announces TRANSACTION_ABORTABLE; v5 adds the group's partition
of `__consumer_offsets` to the transaction by itself (KIP-890), where before AddOffsetsToTxn had done so.

The offsets go into the log at once, in a batch of the transaction. Readers who ask for stable offsets are
get UNSTABLE_OFFSET_COMMIT until the transaction's marker is written. A second commit replaces the first.
"""

from __future__ import annotations

from inspect import isawaitable

from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5 import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from ottla.api.offset_commit import Accepted, Codes, accept, with_result
from ottla.api.support.authorization import refusal
from ottla.api.support.brief_wait import BriefWait
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import check_group_id, try_ask
from ottla.api.support.transaction_verification import verify_with_coordinator
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import CommitRequest, Committed
from ottla.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
)
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType

FIRST_WITH_LOAD_IN_PROGRESS = 2
FIRST_WITH_ABORTABLE = 4
FIRST_THAT_ADDS = 5
MAX_HOLD_S = 0.5
"""How long it holds up requests behind it while it waits for the coordinator of the transaction."""


async def txn_offset_commit(request: TxnOffsetCommitRequest, ctx: RequestContext) -> TxnOffsetCommitResponse:
    """Keep offsets for the transaction of a producer."""
    names = [each.name for each in request.topics]
    refused = refusal(ctx, ResourceType.TRANSACTIONAL_ID, request.transactional_id) or refusal(
        ctx, ResourceType.GROUP, request.group_id
    )
    if refused is not None:
        return _response(request, [[refused.code] * len(topic.partitions) for topic in request.topics])
    codes, accepted = accept(ctx, names, request.topics, ErrorCode.unknown_topic_or_partition)
    if accepted:
        result = await _commit(request, accepted, ctx)
        codes = with_result(codes, names, request.topics, result)
    return _response(request, codes)


async def _commit(
    request: TxnOffsetCommitRequest, accepted: Accepted, ctx: RequestContext
) -> Committed | KafkaError:
    try:
        check_group_id(request.group_id)
        await _verify(request, ctx)
    except KafkaError as error:
        return _known_to_client(error, ctx.version)
    commit = CommitRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        accepted,
        knows_group_not_found=False,
        producer=(request.producer_id, request.producer_epoch),
    )
    result = await try_ask(ctx.services.groups, request.group_id, GroupMachine.commit, commit)
    return _known_to_client(result, ctx.version) if isinstance(result, KafkaError) else result


async def _verify(request: TxnOffsetCommitRequest, ctx: RequestContext) -> None:
    """Make sure that the group's partition is in the transaction; see log/producers/verification.py."""
    partition = ctx.services.groups.led_partition(request.group_id)
    producer = request.producer_id, request.producer_epoch
    if partition.log.producers.has_open_transaction(*producer):
        return
    adds = ctx.version >= FIRST_THAT_ADDS
    verifications = partition.log.verifications
    verification = verifications.begin(*producer, -1, has_epoch_per_transaction=adds)

    def begin() -> None:
        nonlocal verification
        verification = verifications.begin(*producer, -1, has_epoch_per_transaction=adds)

    config = ctx.services.config
    if adds or config.transaction_partition_verification_enable:
        at = partition.topic_partition
        asking = verify_with_coordinator(
            ctx.services,
            request.transactional_id,
            producer,
            (at,),
            adds=adds,
            timeout_ms=config.offsets_commit_timeout_ms,
            begin=begin,
        )
        if isawaitable(asking):
            unverified = CoordinatorLoadInProgress("the transaction's coordinator does not answer")
            verdicts = await BriefWait(ctx.connection, MAX_HOLD_S).until_done(asking, unverified)
        else:
            verdicts = asking
        refusal = verdicts.get(at)
        if refusal is not None:
            raise _of_coordinator(refusal)
    verification.confirm()


def _of_coordinator(error: KafkaError) -> KafkaError:
    """Return what the group's coordinator says when that of the transaction says no.

    To the client, NOT_COORDINATOR and the like would be about the group.
    """
    match error:
        case ProducerFenced():
            return InvalidProducerEpoch(str(error))
        case CoordinatorNotAvailable() | NotCoordinator() | RequestTimedOut():
            return CoordinatorLoadInProgress(f"the transaction cannot be verified yet: {error}")
    return error


def _known_to_client(error: KafkaError, version: int) -> KafkaError:
    """Return an error that this version of the client knows how to handle."""
    if isinstance(error, ConcurrentTransactions) and version < FIRST_THAT_ADDS:
        error = CoordinatorLoadInProgress(str(error))
    if isinstance(error, CoordinatorLoadInProgress) and version < FIRST_WITH_LOAD_IN_PROGRESS:
        return CoordinatorNotAvailable(str(error))
    if isinstance(error, TransactionAbortable) and version < FIRST_WITH_ABORTABLE:
        return InvalidTxnState(str(error))
    if isinstance(error, InvalidTxnState) and version >= FIRST_WITH_ABORTABLE:
        return TransactionAbortable(str(error))
    return error


def _response(request: TxnOffsetCommitRequest, codes: Codes) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each, code in zip(topic.partitions, of_topic, strict=True)
                ),
            )
            for topic, of_topic in zip(request.topics, codes, strict=True)
        ),
    )
