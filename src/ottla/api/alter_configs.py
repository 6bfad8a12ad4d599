"""AlterConfigs: replace all configs of topics and brokers; those not named return to their defaults.

v1 announces throttling; v2 is flexible. Clients should prefer IncrementalAlterConfigs: two clients that each
change one config with this API overwrite each other.
"""

from __future__ import annotations

from kio.schema.alter_configs.v2 import AlterConfigsRequest, AlterConfigsResponse
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse

from ottla.api.support.config_changes import alter_authorized, alterations_of
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of
from ottla.protocol.types import NO_THROTTLE


async def alter_configs(request: AlterConfigsRequest, ctx: RequestContext) -> AlterConfigsResponse:
    """Replace the configs; return one result per resource."""
    results = await alter_authorized(
        ctx, alterations_of(request), validate_only=request.validate_only, replacing=True
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
    return AlterConfigsResponse(throttle_time=NO_THROTTLE, responses=responses)
