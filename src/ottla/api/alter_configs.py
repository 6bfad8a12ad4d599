"""AlterConfigs: replace all configs of topics and brokers; those not named return to their defaults.

v1 announces throttling; v2 is flexible. Clients should prefer IncrementalAlterConfigs: two clients that each
change one config with this API overwrite each other.
"""

from __future__ import annotations

from kio.schema.alter_configs.v2 import AlterConfigsRequest, AlterConfigsResponse
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse

from ottla.api.support.audit_log import audit_config_change
from ottla.api.support.context import RequestContext
from ottla.api.support.own_configs import alterations_of, refusals
from ottla.api.support.results import code_of, message_of
from ottla.protocol.types import NO_THROTTLE


async def alter_configs(request: AlterConfigsRequest, ctx: RequestContext) -> AlterConfigsResponse:
    """Replace the configs; return one result per resource."""
    alterations = alterations_of(request)
    refused = refusals(ctx, alterations)
    allowed = [each for each, error in zip(alterations, refused, strict=True) if error is None]
    altered = await ctx.services.controller.active_controller.alter_configs(
        allowed, validate_only=request.validate_only, replacing=True
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
    return AlterConfigsResponse(throttle_time=NO_THROTTLE, responses=responses)
