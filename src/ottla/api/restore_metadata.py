"""RestoreMetadata: create what a backup has and the cluster has not (an API of Ottla's own).

The message is declared in protocol/own_messages.py.
"""

from __future__ import annotations

import json
import zlib

from kio.schema.errors import ErrorCode

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import MetadataError, decode_records
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.own_messages import RestoreMetadataRequest, RestoreMetadataResponse
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType

MAX_BYTES = 64 * 1024 * 1024


async def restore_metadata(request: RestoreMetadataRequest, ctx: RequestContext) -> RestoreMetadataResponse:
    """Let the controller create what is missing; say what became of each thing."""
    require(ctx, ResourceType.CLUSTER)
    try:
        backup = _image(request.records)
        restored = await ctx.services.controller.active_controller.restore_metadata(
            backup, overwrite=request.overwrite, validate_only=request.validate_only
        )
    except InvalidRequest as error:
        return RestoreMetadataResponse(
            throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message
        )
    if not request.validate_only:
        for each in restored:
            if each.is_change:
                audit_change(ctx, ResourceType.CLUSTER, f"restored {each.kind} {each.name}", None)
    return RestoreMetadataResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        outcomes=json.dumps([[*each] for each in restored]),
    )


def _image(records: bytes) -> ClusterImage:
    try:
        inflating = zlib.decompressobj()
        text = inflating.decompress(records, MAX_BYTES)
        if inflating.unconsumed_tail:
            raise InvalidRequest(f"the records have more than {MAX_BYTES} bytes: send them in parts")
        return EMPTY.apply(decode_records(text.decode()))
    except (zlib.error, ValueError, MetadataError) as error:
        raise InvalidRequest(f"these are not metadata records: {error}") from error
