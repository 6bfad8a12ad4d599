"""DescribeClientQuotas: list the quotas of the entities that match a filter.

v1 is flexible. The filter names entity types, each with a name, with the default, or with any name. An entity
that has more types than the filter matches too, unless the request is strict.
"""

from __future__ import annotations

from kio.schema.describe_client_quotas.v1 import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kio.schema.describe_client_quotas.v1.response import EntityData, EntryData, ValueData
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.protocol.types import NO_THROTTLE, f64
from ottla.security.acls import ResourceType
from ottla.security.quota_entities import FilterComponent, entity_filter


def describe_client_quotas(
    request: DescribeClientQuotasRequest, ctx: RequestContext
) -> DescribeClientQuotasResponse:
    """Return the matching entities with all of their quotas."""
    require(ctx, ResourceType.CLUSTER)
    components = [
        FilterComponent(each.entity_type, each.match_type, each.match) for each in request.components
    ]
    matches = entity_filter(components, strict=request.strict)
    return DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        entries=tuple(
            EntryData(
                entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
                values=tuple(ValueData(key=key, value=f64(value)) for key, value in values.items()),
            )
            for entity, values in ctx.services.cluster.image.client_quotas.items()
            if matches(entity)
        ),
    )
