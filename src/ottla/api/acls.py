"""DescribeAcls, CreateAcls, DeleteAcls: refused, as Kafka does while no authorizer is configured.

v2 is flexible; v3 adds resources of type user. Every filter and every ACL of a request gets its own answer.
"""

from __future__ import annotations

from kio.schema.create_acls.v3 import CreateAclsRequest, CreateAclsResponse
from kio.schema.create_acls.v3.response import AclCreationResult
from kio.schema.delete_acls.v3 import DeleteAclsRequest, DeleteAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult
from kio.schema.describe_acls.v3 import DescribeAclsRequest, DescribeAclsResponse

from ottla.api.context import RequestContext
from ottla.protocol.errors import SecurityDisabled
from ottla.protocol.types import NO_THROTTLE

NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's words, which tools look for."""


def describe_acls(_request: DescribeAclsRequest, _ctx: RequestContext) -> DescribeAclsResponse:
    """Refuse the question."""
    return DescribeAclsResponse(
        throttle_time=NO_THROTTLE,
        error_code=SecurityDisabled.code,
        error_message=NO_AUTHORIZER,
        resources=(),
    )


def create_acls(request: CreateAclsRequest, _ctx: RequestContext) -> CreateAclsResponse:
    """Refuse each ACL."""
    refused = AclCreationResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=(refused,) * len(request.creations))


def delete_acls(request: DeleteAclsRequest, _ctx: RequestContext) -> DeleteAclsResponse:
    """Refuse each filter."""
    refused = DeleteAclsFilterResult(
        error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER, matching_acls=()
    )
    return DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=(refused,) * len(request.filters))
