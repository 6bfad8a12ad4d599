"""CreateAcls: add ACLs.

v2 is flexible; v3 adds resources of type user. The ACLs are in the metadata log: every broker decides by them
as soon as it has read them, the answering one before it answers. Each is created or refused by itself; one
that exists already is accepted. Without an authorizer all are refused, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.create_acls.v3 import CreateAclsRequest, CreateAclsResponse
from kio.schema.create_acls.v3.response import AclCreationResult

from ottla.api.support.acl_messages import acl_text
from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.results import NO_AUTHORIZER, code_of, message_of
from ottla.protocol.errors import KafkaError, SecurityDisabled
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import AclBinding, ResourceType


async def create_acls(request: CreateAclsRequest, ctx: RequestContext) -> CreateAclsResponse:
    """Create the ACLs; return one result for each."""
    wanted = [
        AclBinding(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    refused = refusal(ctx, ResourceType.CLUSTER)
    if refused is None and ctx.services.authorizer is None:
        refused = SecurityDisabled(NO_AUTHORIZER)
    results: Sequence[KafkaError | None] = [refused] * len(wanted)
    if refused is None:
        results = await ctx.services.controller.active_controller.create_acls(wanted)
        for acl, result in zip(wanted, results, strict=True):
            audit_change(ctx, ResourceType.CLUSTER, acl_text(acl), result)
    return CreateAclsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AclCreationResult(error_code=code_of(each), error_message=message_of(each)) for each in results
        ),
    )
