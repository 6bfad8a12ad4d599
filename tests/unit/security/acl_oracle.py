"""An oracle for authorization, written from the rules in docs/security-acls.md, and random ACLs to try it on.

It shares no code with the authorizer: it looks at every ACL for every question, and orders nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from ottla.security.acls import AclBinding

READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, ALL = 3, 4, 6, 7, 8, 10, 11, 2
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3

PRINCIPALS = ("User:a", "User:b", "User:ab", "User:root")
HOSTS = ("10.0.0.1", "10.0.0.2", "::1")
TYPES = (2, 3, 5)
NAMES = ("a", "ab", "abc", "b", "ba", "*", "hardcode", "h")
OPERATIONS = (READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, 5)
SUPER_USERS = frozenset({"User:root"})


class Question(NamedTuple):
    """One request."""

    principal: str
    host: str
    operation: int
    resource_type: int
    name: str


def expected(acls: Sequence[AclBinding], asked: Question, allow_if_no_acl: bool) -> bool:
    """Return what the rules say."""
    if asked.principal in SUPER_USERS:
        return True
    about = [acl for acl in acls if _is_about(acl, asked)]
    if not about:
        return allow_if_no_acl
    mine = [
        acl for acl in about if acl.principal in ("User:*", asked.principal) and acl.host in ("*", asked.host)
    ]
    if any(acl.permission == DENY and acl.operation in (ALL, asked.operation) for acl in mine):
        return False
    enough = {ALL, asked.operation}
    if asked.operation == DESCRIBE:
        enough |= {READ, WRITE, DELETE, ALTER}
    if asked.operation == DESCRIBE_CONFIGS:
        enough |= {ALTER_CONFIGS}
    return any(acl.permission == ALLOW and acl.operation in enough for acl in mine)


def expected_any(acls: Sequence[AclBinding], asked: Question, allow_if_no_acl: bool) -> bool:
    """Return whether there is a name that the rules of KIP-679 find allowed.

    A name counts if it, or what begins with it, is allowed and no DENY covers all of that. An ACL for another
    operation that implies this one does not count, and neither does a name that only happens to be open.
    """
    if expected(acls, asked._replace(name="hardcode"), allow_if_no_acl):
        return True
    mine = [
        acl
        for acl in acls
        if acl.resource_type == asked.resource_type
        and acl.principal in ("User:*", asked.principal)
        and acl.host in ("*", asked.host)
        and acl.operation in (ALL, asked.operation)
    ]
    denied = [acl for acl in mine if acl.permission == DENY]
    if any(acl.pattern_type == LITERAL and acl.resource_name == "*" for acl in denied):
        return False
    for acl in mine:
        if acl.permission != ALLOW:
            continue
        if acl.pattern_type == LITERAL and acl.resource_name == "*":
            return True
        covering = [
            deny
            for deny in denied
            if (deny.pattern_type == PREFIXED and acl.resource_name.startswith(deny.resource_name))
            or (deny.pattern_type == acl.pattern_type == LITERAL and deny.resource_name == acl.resource_name)
        ]
        if not covering:
            return True
    return False


def _is_about(acl: AclBinding, asked: Question) -> bool:
    if acl.resource_type != asked.resource_type:
        return False
    if acl.pattern_type == PREFIXED:
        return asked.name.startswith(acl.resource_name)
    return acl.resource_name == "*" or acl.resource_name == asked.name


def random_acls(random: Random) -> list[AclBinding]:
    """Return up to eight ACLs that overlap a lot."""
    return [
        AclBinding(
            random.choice(TYPES),
            random.choice(NAMES),
            random.choice((LITERAL, LITERAL, PREFIXED)),
            random.choice((*PRINCIPALS[:3], "User:*")),
            random.choice((*HOSTS, "*", "*", "*")),
            random.choice((*OPERATIONS, ALL)),
            random.choice((DENY, ALLOW, ALLOW)),
        )
        for _ in range(random.randrange(9))
    ]


def random_question(random: Random) -> Question:
    """Return a request about the same few names."""
    return Question(
        random.choice(PRINCIPALS),
        random.choice(HOSTS),
        random.choice(OPERATIONS),
        random.choice(TYPES),
        random.choice(NAMES),
    )
