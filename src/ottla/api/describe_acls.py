"""DescribeAcls: list the ACLs that match a filter, by resource.

v2 is flexible; v3 adds resources of type user. Without an authorizer the request is refused, as in Kafka.
"""

from __future__ import annotations

from kio.schema.describe_acls.v3 import DescribeAclsRequest, DescribeAclsResponse
from kio.schema.describe_acls.v3.response import AclDescription, DescribeAclsResource
from kio.schema.errors import ErrorCode

from ottla.api.support.acl_messages import filter_of
from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.results import NO_AUTHORIZER
from ottla.protocol.errors import SecurityDisabled
from ottla.protocol.types import NO_THROTTLE, i8
from ottla.security.acls import AclBinding, ResourceType, check_filter


def describe_acls(request: DescribeAclsRequest, ctx: RequestContext) -> DescribeAclsResponse:
    """List the ACLs."""
    require(ctx, ResourceType.CLUSTER)
    if ctx.services.authorizer is None:
        return DescribeAclsResponse(
            throttle_time=NO_THROTTLE,
            error_code=SecurityDisabled.code,
            error_message=NO_AUTHORIZER,
            resources=(),
        )
    wanted = filter_of(request)
    check_filter(wanted)
    resources: dict[tuple[int, str, int], list[AclBinding]] = {}
    for acl in ctx.services.cluster.image.acls:
        if wanted.matches(acl):
            resources.setdefault(acl[:3], []).append(acl)
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        resources=tuple(
            DescribeAclsResource(
                resource_type=i8(resource_type),
                resource_name=name,
                pattern_type=i8(pattern_type),
                acls=tuple(_description(each) for each in acls),
            )
            for (resource_type, name, pattern_type), acls in resources.items()
        ),
    )


def _description(acl: AclBinding) -> AclDescription:
    return AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=i8(acl.operation),
        permission_type=i8(acl.permission),
    )
