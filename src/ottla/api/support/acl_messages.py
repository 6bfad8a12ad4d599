"""Convert between ACLs and the fields of the messages about them."""

from __future__ import annotations

from kio.schema.delete_acls.v3.request import DeleteAclsFilter
from kio.schema.describe_acls.v3 import DescribeAclsRequest

from ottla.security.acls import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request."""
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def acl_text(acl: AclBinding) -> str:
    """Return an ACL as one line, for the audit log."""
    try:
        permission, operation = Permission(acl.permission).name, Operation(acl.operation).name
        resource, pattern = ResourceType(acl.resource_type).name, PatternType(acl.pattern_type).name
    except ValueError:
        return str(tuple(acl))
    what = f"{resource}:{pattern}:{acl.resource_name}"
    return f"{permission} {acl.principal} {operation} on {what} from {acl.host}"
