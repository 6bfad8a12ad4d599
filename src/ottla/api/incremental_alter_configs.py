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

from ottla.api.support.audit_log import audit_config_change
from ottla.api.support.context import RequestContext
from ottla.api.support.own_configs import alterations_of, refusals
from ottla.api.support.results import code_of, message_of
from ottla.protocol.types import NO_THROTTLE


async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Change the configs; return one result per resource."""
    alterations = alterations_of(request)
    refused = refusals(ctx, alterations)
    allowed = [each for each, error in zip(alterations, refused, strict=True) if error is None]
    altered = await ctx.services.controller.active_controller.alter_configs(
        allowed, validate_only=request.validate_only
    )
    if not request.validate_only:
        for each, outcome in zip(allowed, altered, strict=True):
            audit_config_change(ctx, each, outcome)
    outcomes = iter(altered)
    results = [next(outcomes) if error is None else error for error in refused]
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
