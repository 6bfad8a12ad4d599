"""ACLs as values: operations, resources, bindings and filters, with the numbers of the protocol.

A binding allows or denies one operation on one resource pattern to one principal from one host. Patterns are
literal (`orders`; `*` matches every name) or prefixed (`orders-` matches every name that starts with it).
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from ottla.protocol.errors import InvalidRequest

WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"
"""The one name of the resource type CLUSTER."""
EVERY_PRINCIPAL = "User:*"


class Operation(IntEnum):
    """What a client does with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What an operation is done with."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a pattern's name is compared; ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a binding does."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_O = Operation
OPERATIONS_OF: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}
"""The operations that a resource of each type knows: those of the authorized-operations answers."""

ALL_OPERATIONS: dict[ResourceType, int] = {
    resource_type: sum(1 << operation for operation in operations)
    for resource_type, operations in OPERATIONS_OF.items()
}
"""The same as bit fields."""

IMPLIED_BY: dict[int, frozenset[int]] = {
    _O.DESCRIBE: frozenset({_O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.ALTER_CONFIGS}),
}
"""Permission for one of these implies permission for the key. A denial implies nothing."""


class AclBinding(NamedTuple):
    """One ACL."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """A description of ACLs: None and ANY match everything."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Return whether the filter describes this ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.pattern_type == PatternType.MATCH:
            return self.resource_name is None or pattern_covers(acl, self.resource_name)
        if self.pattern_type not in (PatternType.ANY, acl.pattern_type):
            return False
        return self.resource_name in (None, acl.resource_name)


def pattern_covers(acl: AclBinding, name: str) -> bool:
    """Return whether the pattern of an ACL matches the resource called `name`."""
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def check_binding(acl: AclBinding) -> None:
    """Refuse an ACL that cannot be created, with Kafka's messages."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if acl.resource_type not in OPERATIONS_OF:
        raise InvalidRequest(f"Invalid resourceType {_name(ResourceType, acl.resource_type)}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {_name(PatternType, acl.pattern_type)}")
    if not Operation.ALL <= acl.operation <= Operation.TWO_PHASE_COMMIT:
        raise InvalidRequest(f"Invalid operation {_name(Operation, acl.operation)}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise InvalidRequest(f"Invalid permissionType {_name(Permission, acl.permission)}")
    if ":" not in acl.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    if not acl.host:
        raise InvalidRequest("Invalid empty host")


def check_filter(wanted: AclFilter) -> None:
    """Refuse a filter with numbers that the protocol does not know."""
    for enum, value in (
        (ResourceType, wanted.resource_type),
        (PatternType, wanted.pattern_type),
        (Operation, wanted.operation),
        (Permission, wanted.permission),
    ):
        if _name(enum, value) == "UNKNOWN":
            raise InvalidRequest(f"Filter contains UNKNOWN elements: {enum.__name__} {value}")


def _name(enum: type[IntEnum], value: int) -> str:
    try:
        return enum(value).name
    except ValueError:
        return "UNKNOWN"


@lru_cache(maxsize=4096)
def canonical_host(host: str) -> str:
    """Return an address in its shortest form, as sockets and ACLs may spell it differently."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
