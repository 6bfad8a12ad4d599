"""ListConfigResources: the names of the resources that have configs.

v0 lists client metrics resources; v1 lists the requested types, or all.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1 import ListConfigResourcesRequest, ListConfigResourcesResponse
from kio.schema.list_config_resources.v1.response import ConfigResource as ListedResource

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import ConfigResource
from ottla.protocol.errors import UnsupportedVersion
from ottla.protocol.types import NO_THROTTLE, i8
from ottla.security.acls import ResourceType


def list_config_resources(
    request: ListConfigResourcesRequest, ctx: RequestContext
) -> ListConfigResourcesResponse:
    """List the resources of the requested types."""
    require(ctx, ResourceType.CLUSTER)
    wanted = {int(each) for each in request.resource_types} or {int(each) for each in ConfigResource}
    if ctx.version == 0:
        wanted = {int(ConfigResource.CLIENT_METRICS)}
    known = {int(each) for each in ConfigResource}
    if unknown := wanted - known:
        raise UnsupportedVersion(f"unknown resource type {min(unknown)}")
    image = ctx.services.cluster.image
    return ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        config_resources=tuple(
            ListedResource(resource_name=name, resource_type=i8(kind))
            for kind in sorted(wanted)
            for name in _names(image, kind)
        ),
    )


def _names(image: ClusterImage, kind: int) -> Iterable[str]:
    if kind == ConfigResource.TOPIC:
        return sorted(image.topics)
    if kind in (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER):
        return (str(each) for each in sorted(image.brokers))
    return sorted(name for (type_, name), values in image.configs.items() if type_ == kind and values)
