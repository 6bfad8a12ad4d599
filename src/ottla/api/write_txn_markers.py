"""WriteTxnMarkers: a coordinator has decided a transaction, and ends it by a control batch in each partition.

v1 is flexible; v2 says which transaction version a marker belongs to. With version 2 the marker carries the
epoch after its transaction's, so that one that comes late cannot end a later transaction (KIP-890). A
coordinator that has been replaced is refused with TRANSACTION_COORDINATOR_FENCED. The response is sent when
the markers are committed. In `__consumer_offsets` the marker also decides the offsets that groups have
pending for the transaction (coordinator/marker_appender.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authentication import is_from_broker
from ottla.api.support.authorization import may, refusal
from ottla.api.support.context import RequestContext
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import ERRORS
from ottla.protocol.records.control import Marker
from ottla.protocol.types import i32
from ottla.security.acls import Operation, ResourceType


async def write_txn_markers(request: WriteTxnMarkersRequest, ctx: RequestContext) -> WriteTxnMarkersResponse:
    """End transactions in the partitions that this broker leads."""
    codes = iter(await _append(request, ctx))
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(
                producer_id=each.producer_id,
                topics=tuple(
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WritableTxnMarkerPartitionResult(
                                partition_index=i32(index), error_code=next(codes)
                            )
                            for index in topic.partition_indexes
                        ),
                    )
                    for topic in each.topics
                ),
            )
            for each in request.markers
        )
    )


async def _append(request: WriteTxnMarkersRequest, ctx: RequestContext) -> Sequence[ErrorCode]:
    markers = _markers(request)
    if not may(ctx, ResourceType.CLUSTER, operation=Operation.ALTER):
        refused = refusal(ctx, ResourceType.CLUSTER)
        if refused is not None:
            return [refused.code] * len(markers)
    codes = await ctx.services.transactions.marker_appender.append_all(markers)
    if not is_from_broker(ctx.services, ctx.connection, ctx.client_id):  # but from an administrator
        for (marker, partition), code in zip(markers, codes, strict=True):
            error = None if code is ErrorCode.none else ERRORS[code]()
            name = f"transaction of producer {marker.producer_id} in {partition}"
            audit_change(ctx, ResourceType.TOPIC, name, error, "PARTITION")
    return codes


def _markers(request: WriteTxnMarkersRequest) -> list[tuple[Marker, TopicPartition]]:
    """Return the markers of a request, one for each partition, in its order."""
    markers: list[tuple[Marker, TopicPartition]] = []
    for each in request.markers:
        marker = Marker(
            each.producer_id,
            each.producer_epoch,
            each.transaction_result,
            each.coordinator_epoch,
            each.transaction_version,
        )
        for topic in each.topics:
            markers.extend((marker, TopicPartition(topic.name, index)) for index in topic.partition_indexes)
    return markers
