"""DescribeAcls: list ACLs.

v2 is flexible; v3 adds resources of type user. There is no authorizer yet: requests are rejected as Kafka
rejects them if no authorizer is configured.
"""

from __future__ import annotations

from kio.schema.describe_acls.v3 import DescribeAclsRequest, DescribeAclsResponse

from ottla.api.support.context import RequestContext
from ottla.api.support.results import NO_AUTHORIZER
from ottla.protocol.errors import SecurityDisabled
from ottla.protocol.types import NO_THROTTLE


def describe_acls(request: DescribeAclsRequest, ctx: RequestContext) -> DescribeAclsResponse:
    """Reject the request."""
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=SecurityDisabled.code,
        error_message=NO_AUTHORIZER,
        resources=(),
    )
