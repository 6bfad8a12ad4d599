"""WriteTxnMarkers: a coordinator has decided a transaction, and ends it by a control batch in each partition.

v1 is flexible; v2 says which transaction version a marker belongs to. With version 2 the marker carries the
epoch after its transaction's, so that one that comes late cannot end a later transaction (KIP-890). A
coordinator that has been replaced is refused with TRANSACTION_COORDINATOR_FENCED. The answer comes when
the markers are committed. In `__consumer_offsets` the marker also decides the offsets that groups keep
for the transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from ottla.api.support.context import RequestContext, Services
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownServerError,
)
from ottla.protocol.records.control import Marker
from ottla.protocol.types import i32

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 30.0
MARKERS_PER_TURN = 200

Outcome = KafkaError | asyncio.Future[None] | None
"""Why a marker was not appended; or when it is committed; or that it is."""


async def write_txn_markers(request: WriteTxnMarkersRequest, ctx: RequestContext) -> WriteTxnMarkersResponse:
    """End transactions in the partitions that this broker leads."""
    return WriteTxnMarkersResponse(markers=await write_markers(ctx.services, request.markers))


async def write_markers(
    services: Services, markers: Sequence[WritableTxnMarker]
) -> tuple[WritableTxnMarkerResult, ...]:
    """Append the markers, and return what became of each once they are committed."""
    outcomes: list[Outcome] = []
    for each in markers:
        marker = Marker(
            each.producer_id,
            each.producer_epoch,
            each.transaction_result,
            each.coordinator_epoch,
            each.transaction_version,
        )
        for topic in each.topics:
            for index in topic.partition_indexes:
                outcomes.append(append_marker(services, topic.name, index, marker))
                if len(outcomes) % MARKERS_PER_TURN == 0:
                    await asyncio.sleep(0)
    waiting = [each for each in outcomes if isinstance(each, asyncio.Future)]
    if waiting:
        try:
            await asyncio.wait(waiting, timeout=COMMIT_TIMEOUT_S)
        except asyncio.CancelledError:
            for commit in waiting:
                _let_go(commit)
            raise
    codes = iter([_code(each) for each in outcomes])
    return tuple(
        WritableTxnMarkerResult(
            producer_id=each.producer_id,
            topics=tuple(
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        WritableTxnMarkerPartitionResult(partition_index=i32(index), error_code=next(codes))
                        for index in topic.partition_indexes
                    ),
                )
                for topic in each.topics
            ),
        )
        for each in markers
    )


def append_marker(services: Services, topic: str, index: int, marker: Marker) -> Outcome:
    """Append a marker to a partition that this broker leads."""
    try:
        if topic == CONSUMER_OFFSETS_TOPIC:
            return services.groups.end_transaction(index, marker)
        partition = services.partitions.get(topic, index)
        partition.check_in_sync()
        return partition.when_committed(partition.append_marker(marker).last_offset + 1)
    except (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator) as error:
        # Who sends markers expects what partitions say, and tries again.
        return NotLeaderOrFollower(str(error))
    except KafkaError as error:
        return error
    except Exception as error:
        log.error("the marker of %s-%d cannot be written", topic, index, exc_info=error)
        return UnknownServerError("the broker failed; its log says why")


def _let_go(commit: asyncio.Future[None]) -> None:
    """Wait no more; if it fails, nobody needs to hear of it."""
    if not commit.cancel() and not commit.cancelled():
        commit.exception()


def _code(outcome: Outcome) -> ErrorCode:
    if outcome is None:
        return ErrorCode.none
    if isinstance(outcome, KafkaError):
        return outcome.code
    if not outcome.done():
        outcome.cancel()
        return RequestTimedOut.code
    error = outcome.exception()
    if error is None:
        return ErrorCode.none
    return error.code if isinstance(error, KafkaError) else UnknownServerError.code
