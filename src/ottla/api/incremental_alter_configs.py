"""IncrementalAlterConfigs: set, reset, append to and subtract from configs of topics and brokers.

v1 is flexible. Configs that are not named are unchanged. The changes of one resource are atomic; other
resources of the request succeed or fail independently.
"""

from __future__ import annotations

from kio.schema.incremental_alter_configs.v1 import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kio.schema.incremental_alter_configs.v1.response import AlterConfigsResourceResponse

from ottla.api.support.config_changes import alter_authorized, alterations_of
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of
from ottla.protocol.types import NO_THROTTLE


async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Change the configs; return one result per resource."""
    results = await alter_authorized(
        ctx, alterations_of(request), validate_only=request.validate_only, replacing=False
    )
    responses = tuple(
        AlterConfigsResourceResponse(
            error_code=code_of(result),
            error_message=message_of(result),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, result in zip(request.resources, results, strict=True)
    )
    return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=responses)
