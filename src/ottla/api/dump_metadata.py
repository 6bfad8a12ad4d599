"""DumpMetadata: the metadata of the cluster, for a backup (an API of Ottla's own).

It contains the keys of SCRAM users: who may read it may attack their passwords, so ALTER on the cluster is
needed. The message is declared in protocol/own_messages.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib

from kio.schema.errors import ErrorCode

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.metadata.records import encode_records
from ottla.protocol.errors import RequestTimedOut
from ottla.protocol.own_messages import DumpMetadataRequest, DumpMetadataResponse
from ottla.protocol.types import NO_THROTTLE, i64
from ottla.security.acls import ResourceType

CATCH_UP_S = 0.2
"""How long the newest metadata is waited for: requests behind this one wait too."""


async def dump_metadata(_: DumpMetadataRequest, ctx: RequestContext) -> DumpMetadataResponse:
    """Return the records that create the newest image; without a store, what this broker knows."""
    if (refused := refusal(ctx, ResourceType.CLUSTER)) is not None:
        return DumpMetadataResponse(
            throttle_time=NO_THROTTLE, error_code=refused.code, error_message=refused.message
        )
    with contextlib.suppress(TimeoutError, RequestTimedOut):  # without a store, what this broker knows
        async with asyncio.timeout(CATCH_UP_S):
            await ctx.services.controller.catch_up()
    image = ctx.services.cluster.image
    loop = asyncio.get_running_loop()
    # In a thread: a large cluster has megabytes of records, and the image never changes.
    records = await loop.run_in_executor(
        None, lambda: zlib.compress(encode_records(image.records()).encode(), 1)
    )
    audit_change(ctx, ResourceType.CLUSTER, "backup of the metadata", None)
    return DumpMetadataResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, version=i64(image.version), records=records
    )
