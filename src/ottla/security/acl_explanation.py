"""Explain why a principal may or may not do something: which ACL, or which rule, decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ottla.security.acls import (
    EVERY_PRINCIPAL,
    IMPLIED_BY,
    WILDCARD,
    AclBinding,
    Operation,
    Permission,
    canonical_host,
    pattern_covers,
)


class Explanation(NamedTuple):
    """The decision, its reason in words, and the ACL that decided, if one did."""

    is_allowed: bool
    reason: str
    acl: AclBinding | None = None


def explain(
    acls: Iterable[AclBinding],
    principal: str,
    host: str,
    operation: int,
    resource_type: int,
    name: str,
    *,
    super_users: Collection[str] = (),
    allow_if_no_acl: bool = False,
) -> Explanation:
    """Decide as the authorizer does (security/authorizer.py), and say why."""
    if principal in super_users:
        return Explanation(True, f"{principal} is a super user (super.users)")
    covering = [acl for acl in acls if acl.resource_type == resource_type and pattern_covers(acl, name)]
    if not covering:
        if allow_if_no_acl:
            return Explanation(
                True, "no ACL matches the resource, and allow.everyone.if.no.acl.found is true"
            )
        return Explanation(False, "no ACL matches the resource")
    applying = [
        acl
        for acl in covering
        if acl.principal in (principal, EVERY_PRINCIPAL)
        and canonical_host(acl.host) in (canonical_host(host), WILDCARD)
    ]
    direct = [acl for acl in applying if acl.operation in (operation, Operation.ALL)]
    for acl in direct:
        if acl.permission == Permission.DENY:
            return Explanation(False, "an ACL denies it; a denial is stronger than any permission", acl)
    for acl in direct:
        if acl.permission == Permission.ALLOW:
            return Explanation(True, "an ACL allows it", acl)
    for acl in applying:
        if acl.permission == Permission.ALLOW and acl.operation in IMPLIED_BY.get(operation, ()):
            granted, wanted = Operation(acl.operation).name, Operation(operation).name
            return Explanation(True, f"an ACL allows {granted}, which implies {wanted}", acl)
    if applying:
        return Explanation(False, f"the ACLs for {principal} on this resource are for other operations")
    return Explanation(False, f"there are ACLs on this resource, but none for {principal} from {host}")
