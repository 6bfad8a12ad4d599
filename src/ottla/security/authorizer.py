"""Decide whether a principal may do an operation on a resource, by Kafka's StandardAuthorizer's rules.

1. A super user may do everything.
2. The ACLs whose pattern matches the resource count: literal, `*`, prefixed. If there is none,
   `allow.everyone.if.no.acl.found` decides.
3. Of these, the ones for the principal (or `User:*`) from its host (or `*`) apply. One DENY for the operation
   (or ALL) denies.
4. One ALLOW for the operation, for ALL, or for an operation that implies it, allows. Otherwise it is denied.

Decisions are cached per principal, host, operation and resource, and dropped when the ACLs change. The index
is built on the first decision after a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ottla.security.acls import (
    EVERY_PRINCIPAL,
    IMPLIED_BY,
    OPERATIONS_OF,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    canonical_host,
)

MAX_DECISIONS = 50_000
MAX_NAME_CHARS = 300
"""Longer names are decided each time: a stranger's requests must not fill the cache with text."""

Decision = tuple[str, str, int, int, str]


@dataclass(slots=True)
class _Index:
    """The ACLs of one resource type, by the name of their pattern."""

    literal: dict[str, list[AclBinding]] = field(default_factory=dict)
    prefixed: dict[str, list[AclBinding]] = field(default_factory=dict)
    prefix_lengths: tuple[int, ...] = ()

    def matching(self, name: str) -> Iterator[list[AclBinding]]:
        """Yield the ACLs of every pattern that matches `name`."""
        if (found := self.literal.get(name)) is not None:
            yield found
        if name != WILDCARD and (found := self.literal.get(WILDCARD)) is not None:
            yield found
        for length in self.prefix_lengths:
            if length > len(name):
                break
            if (found := self.prefixed.get(name[:length])) is not None:
                yield found


class Authorizer:
    """Decides on the ACLs of the newest image."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._acls: Iterable[AclBinding] = ()
        self._index: dict[int, _Index] | None = None
        self._decisions: dict[Decision, bool] = {}
        self._any_decisions: dict[tuple[str, str, int, int], bool] = {}

    def update(self, acls: Iterable[AclBinding]) -> None:
        """Decide by these ACLs from now on."""
        if acls is not self._acls:
            self._acls = acls
            self._index = None
            self._decisions = {}
            self._any_decisions = {}

    def is_super_user(self, principal: str) -> bool:
        """Return whether the principal is named in `super.users`."""
        return principal in self._super_users

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Return whether the principal, connected from `host`, may do this."""
        allowed = self._decisions.get((principal, host, operation, resource_type, name))
        if allowed is None:
            allowed = self._decide(principal, canonical_host(host), operation, resource_type, name)
            if len(name) <= MAX_NAME_CHARS:
                if len(self._decisions) >= MAX_DECISIONS:
                    self._decisions.clear()
                self._decisions[principal, host, operation, resource_type, name] = allowed
        return allowed

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether the principal may do this with some resource of the type, which need not exist.

        KIP-679: who may write to any topic may use an idempotent producer.
        """
        key = (principal, host, operation, resource_type)
        allowed = self._any_decisions.get(key)
        if allowed is None:
            if len(self._any_decisions) >= MAX_DECISIONS:
                self._any_decisions.clear()
            allowed = self._decide_any(principal, canonical_host(host), operation, resource_type)
            self._any_decisions[key] = allowed
        return allowed

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """Return the operations that the principal may do with a resource, as a bit field."""
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the ACLs that a filter describes."""
        return [acl for acl in self._acls if wanted.matches(acl)]

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self._super_users:
            return True
        has_acls = is_allowed = False
        index = self._built_index().get(resource_type)
        implied_by = IMPLIED_BY.get(operation, ())
        for acls in () if index is None else index.matching(name):
            has_acls = True
            for acl in acls:
                if acl.principal != principal and acl.principal != EVERY_PRINCIPAL:
                    continue
                if acl.host != host and acl.host != WILDCARD:
                    continue
                is_direct = acl.operation == operation or acl.operation == Operation.ALL
                if acl.permission == Permission.DENY:
                    if is_direct:
                        return False
                elif is_direct or acl.operation in implied_by:
                    is_allowed = True
        return is_allowed if has_acls else self._allow_if_no_acl

    def _decide_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        # Kafka asks for this name first: it finds super users, `*` and resources without any ACL.
        if self._decide(principal, host, operation, resource_type, "hardcode"):
            return True
        allowed: list[AclBinding] = []
        denied: set[tuple[int, str]] = set()
        for acl in self._acls:
            if (
                acl.resource_type != resource_type
                or acl.principal not in (principal, EVERY_PRINCIPAL)
                or canonical_host(acl.host) not in (host, WILDCARD)
                or acl.operation not in (operation, Operation.ALL)
            ):
                continue
            if acl.permission == Permission.ALLOW:
                allowed.append(acl)
            elif acl.pattern_type == PatternType.LITERAL and acl.resource_name == WILDCARD:
                return False
            else:
                denied.add((acl.pattern_type, acl.resource_name))
        return any(not _is_dominated(acl, denied) for acl in allowed)

    def _built_index(self) -> dict[int, _Index]:
        if self._index is None:
            self._index = _build_index(self._acls)
        return self._index


def _is_dominated(acl: AclBinding, denied: set[tuple[int, str]]) -> bool:
    """Return whether every name that the ACL allows is denied by another pattern."""
    name = acl.resource_name
    if acl.pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def _build_index(acls: Iterable[AclBinding]) -> dict[int, _Index]:
    types: dict[int, _Index] = {}
    prefixed = int(PatternType.PREFIXED)
    for acl in acls:
        index = types.get(acl.resource_type)
        if index is None:
            index = types[acl.resource_type] = _Index()
        if acl.host != WILDCARD:
            acl = acl._replace(host=canonical_host(acl.host))
        names = index.prefixed if acl.pattern_type == prefixed else index.literal
        known = names.get(acl.resource_name)
        if known is None:
            names[acl.resource_name] = [acl]
        else:
            known.append(acl)
    for index in types.values():
        index.prefix_lengths = tuple(sorted({len(name) for name in index.prefixed}))
    return types
