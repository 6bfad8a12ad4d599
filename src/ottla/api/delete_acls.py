"""DeleteAcls: remove the ACLs that match filters.

v2 is flexible; v3 adds resources of type user. The response lists what each filter has removed. Without an
authorizer all filters are refused, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.delete_acls.v3 import DeleteAclsRequest, DeleteAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult, DeleteAclsMatchingAcl
from kio.schema.errors import ErrorCode

from ottla.api.support.acl_messages import acl_text, filter_of
from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.results import NO_AUTHORIZER, code_of, message_of
from ottla.protocol.errors import KafkaError, SecurityDisabled
from ottla.protocol.types import NO_THROTTLE, i8
from ottla.security.acls import AclBinding, ResourceType


async def delete_acls(request: DeleteAclsRequest, ctx: RequestContext) -> DeleteAclsResponse:
    """Remove the ACLs; return those of each filter."""
    wanted = [filter_of(each) for each in request.filters]
    refused = refusal(ctx, ResourceType.CLUSTER)
    if refused is None and ctx.services.authorizer is None:
        refused = SecurityDisabled(NO_AUTHORIZER)
    results: Sequence[tuple[AclBinding, ...] | KafkaError]
    if refused is None:
        results = await ctx.services.controller.active_controller.delete_acls(wanted)
        for acl in dict.fromkeys(acl for each in results if isinstance(each, tuple) for acl in each):
            audit_change(ctx, ResourceType.CLUSTER, acl_text(acl), None)
    else:
        results = [refused] * len(wanted)
    return DeleteAclsResponse(
        throttle_time=NO_THROTTLE, filter_results=tuple(_filter_result(each) for each in results)
    )


def _filter_result(result: tuple[AclBinding, ...] | KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=code_of(result),
        error_message=message_of(result),
        matching_acls=() if isinstance(result, KafkaError) else tuple(_matching(each) for each in result),
    )


def _matching(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=i8(acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=i8(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=i8(acl.operation),
        permission_type=i8(acl.permission),
    )
