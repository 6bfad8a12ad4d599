"""ACLs: create, list and delete them on any Kafka cluster with an authorizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypedDict, Unpack

from kio.schema.create_acls.v3 import CreateAclsRequest, CreateAclsResponse
from kio.schema.create_acls.v3.request import AclCreation
from kio.schema.delete_acls.v3 import DeleteAclsRequest, DeleteAclsResponse
from kio.schema.delete_acls.v3.request import DeleteAclsFilter
from kio.schema.describe_acls.v3 import DescribeAclsRequest, DescribeAclsResponse
from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster
from ottla.client.errors import error_for, raise_for
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import i8
from ottla.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

ANY = "any"


@dataclass(frozen=True, slots=True)
class Acl:
    """One ACL: a principal may (or with `permission="deny"` may not) do an operation on resources.

    `resource_type` is topic, group, cluster, transactional_id, delegation_token or user; `pattern` is literal
    or prefixed; the name `*` stands for all. Words may be in any case.
    """

    principal: str
    operation: str
    resource_type: str
    resource_name: str = CLUSTER_NAME
    pattern: str = "literal"
    host: str = "*"
    permission: str = "allow"


class AclQuery(TypedDict, total=False):
    """Which ACLs: those that have all of the given values.

    `pattern="match"` finds all ACLs that apply to the resource `resource_name`: also prefixed ones and `*`.
    """

    principal: str
    operation: str
    resource_type: str
    resource_name: str
    pattern: str
    host: str
    permission: str


class Acls:
    """Asks for ACLs, and for changes to them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(self, acls: Sequence[Acl]) -> list[KafkaError | None]:
        """Create ACLs; return the error of each, in order."""
        request = CreateAclsRequest(creations=tuple(_creation(each) for each in acls))

        async def attempt() -> CreateAclsResponse:
            connection = await self._cluster.controller()
            return await connection.request(request, CreateAclsResponse)

        response = await self._cluster.retrying(attempt, what="the ACLs were not created")
        return [_error(each.error_code, each.error_message) for each in response.results]

    async def describe(self, **wanted: Unpack[AclQuery]) -> list[Acl]:
        """Return the ACLs that match."""
        request = DescribeAclsRequest(**_filter(wanted))

        async def attempt() -> DescribeAclsResponse:
            connection = await self._cluster.any_broker()
            response = await connection.request(request, DescribeAclsResponse)
            raise_for(response.error_code, response.error_message)
            return response

        response = await self._cluster.retrying(attempt, what="the ACLs were not listed")
        return [
            Acl(
                each.principal,
                _word(Operation, each.operation),
                _word(ResourceType, resource.resource_type),
                resource.resource_name,
                _word(PatternType, resource.pattern_type),
                each.host,
                _word(Permission, each.permission_type),
            )
            for resource in response.resources
            for each in resource.acls
        ]

    async def delete(self, **wanted: Unpack[AclQuery]) -> list[Acl]:
        """Delete the ACLs that match; return them."""
        request = DeleteAclsRequest(filters=(DeleteAclsFilter(**_filter(wanted)),))

        async def attempt() -> DeleteAclsResponse:
            connection = await self._cluster.controller()
            response = await connection.request(request, DeleteAclsResponse)
            raise_for(response.filter_results[0].error_code, response.filter_results[0].error_message)
            return response

        response = await self._cluster.retrying(attempt, what="the ACLs were not deleted")
        return [
            Acl(
                each.principal,
                _word(Operation, each.operation),
                _word(ResourceType, each.resource_type),
                each.resource_name,
                _word(PatternType, each.pattern_type),
                each.host,
                _word(Permission, each.permission_type),
            )
            for each in response.filter_results[0].matching_acls
        ]


def _creation(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=_number(ResourceType, acl.resource_type),
        resource_name=acl.resource_name,
        resource_pattern_type=_number(PatternType, acl.pattern),
        principal=acl.principal,
        host=acl.host,
        operation=_number(Operation, acl.operation),
        permission_type=_number(Permission, acl.permission),
    )


def _filter(wanted: AclQuery) -> dict[str, Any]:
    return {
        "resource_type_filter": _number(ResourceType, wanted.get("resource_type", ANY)),
        "resource_name_filter": wanted.get("resource_name"),
        "pattern_type_filter": _number(PatternType, wanted.get("pattern", ANY)),
        "principal_filter": wanted.get("principal"),
        "host_filter": wanted.get("host"),
        "operation": _number(Operation, wanted.get("operation", ANY)),
        "permission_type": _number(Permission, wanted.get("permission", ANY)),
    }


def _number(enum: type[IntEnum], word: str) -> i8:
    try:
        return i8(enum[word.strip().upper().replace("-", "_")].value)
    except KeyError:
        known = ", ".join(each.name.lower() for each in enum if each.value)
        raise ValueError(f"{word!r} is none of {known}") from None


def _word(enum: type[IntEnum], number: int) -> str:
    try:
        return enum(number).name.lower()
    except ValueError:
        return "unknown"


def _error(code: ErrorCode, message: str | None) -> KafkaError | None:
    return None if code is ErrorCode.none else error_for(code, message)
