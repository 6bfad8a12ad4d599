"""CreateAcls: add ACLs.

v2 is flexible; v3 adds resources of type user. There is no authorizer yet: requests are rejected as Kafka
rejects them if no authorizer is configured.
"""

from __future__ import annotations

from kio.schema.create_acls.v3 import CreateAclsRequest, CreateAclsResponse
from kio.schema.create_acls.v3.response import AclCreationResult

from ottla.api.support.context import RequestContext
from ottla.api.support.results import NO_AUTHORIZER
from ottla.protocol.errors import SecurityDisabled
from ottla.protocol.types import NO_THROTTLE


def create_acls(request: CreateAclsRequest, ctx: RequestContext) -> CreateAclsResponse:
    """Refuse each ACL."""
    refused = AclCreationResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(throttle_time=NO_THROTTLE, results=(refused,) * len(request.creations))
