"""DeleteAcls: remove the ACLs that match filters.

v2 is flexible; v3 adds resources of type user. There is no authorizer yet: requests are rejected as Kafka
rejects them if no authorizer is configured.
"""

from __future__ import annotations

from kio.schema.delete_acls.v3 import DeleteAclsRequest, DeleteAclsResponse
from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult

from ottla.api.support.context import RequestContext
from ottla.api.support.results import NO_AUTHORIZER
from ottla.protocol.errors import SecurityDisabled
from ottla.protocol.types import NO_THROTTLE


def delete_acls(request: DeleteAclsRequest, ctx: RequestContext) -> DeleteAclsResponse:
    """Reject each filter."""
    refused = DeleteAclsFilterResult(
        error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER, matching_acls=()
    )
    return DeleteAclsResponse(throttle_time=NO_THROTTLE, filter_results=(refused,) * len(request.filters))
