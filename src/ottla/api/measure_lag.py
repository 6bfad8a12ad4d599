"""MeasureLag: the end offsets of partitions, and the timestamps of given offsets (an API of Ottla's own).

A group coordinator sends it to the leaders of partitions that it has no replica of, for the lag metrics
(decision 60). It returns nothing that ListOffsets and Fetch do not. The message is declared in
protocol/own_messages.py.
"""

from __future__ import annotations

import asyncio

from kio.schema.errors import ErrorCode

from ottla.api.list_offsets import OFFSET_NOT_AVAILABLE_FROM, end_not_known
from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext, Services
from ottla.protocol.errors import KafkaError
from ottla.protocol.own_messages import (
    MeasuredPartition,
    MeasureLagRequest,
    MeasureLagResponse,
    PartitionToMeasure,
)
from ottla.protocol.types import NO_THROTTLE, i64
from ottla.security.acls import ResourceType

PARTITIONS_PER_SLICE = 20
"""Partitions per slice of work between yields to the event loop: each may read and decompress a batch."""


async def measure_lag(request: MeasureLagRequest, ctx: RequestContext) -> MeasureLagResponse:
    """Measure every partition; one that fails does not fail the others."""
    require(ctx, ResourceType.CLUSTER)
    measured = []
    for number, each in enumerate(request.partitions, 1):
        measured.append(_measure(ctx.services, each))
        if number % PARTITIONS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return MeasureLagResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, partitions=tuple(measured)
    )


def _measure(services: Services, wanted: PartitionToMeasure) -> MeasuredPartition:
    try:
        partition = services.partitions.get(wanted.topic, wanted.partition_index)
        not_known = end_not_known(partition, OFFSET_NOT_AVAILABLE_FROM)
        if not_known is not None:
            raise not_known
    except KafkaError as error:
        return MeasuredPartition(error_code=error.code)
    found = services.groups.measure(partition, wanted.offset)
    return MeasuredPartition(
        error_code=ErrorCode.none,
        start_offset=i64(found.start_offset),
        end_offset=i64(found.end_offset),
        timestamp=i64(-1 if found.first_unread_ms is None else found.first_unread_ms),
    )
