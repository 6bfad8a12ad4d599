"""Ask the authorizer whether a request may do what it names.

A handler names the resource; the operation comes from the table (`NEEDS`). `may` is for lists, from which a
resource is left out silently. `refusal` and `require` are for resources that the request names: a denial is
written to the audit log. Without an authorizer everything is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from ottla.api.table import OPERATIONS
from ottla.metadata.records import ConfigResource
from ottla.protocol.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from ottla.security.acls import ALL_OPERATIONS, CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from ottla.api.support.context import RequestContext

T = TypeVar("T")

NOT_ASKED = -(2**31)
"""The authorized operations of a response whose request did not ask for them."""

REFUSALS: dict[int, type[KafkaError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: DelegationTokenAuthorizationFailed,
    ResourceType.USER: DelegationTokenAuthorizationFailed,
}


def may(
    ctx: RequestContext,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    operation: Operation | None = None,
) -> bool:
    """Return whether the request may do its operation on the resource; a denial leaves no trace."""
    authorizer = ctx.services.authorizer
    if authorizer is None:
        return True
    if operation is None:
        operation = OPERATIONS[ctx.api_key, resource_type]
    connection = ctx.connection
    return authorizer.allows(connection.principal, connection.host, operation, resource_type, name)


def refusal(
    ctx: RequestContext,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    operation: Operation | None = None,
) -> KafkaError | None:
    """Return the error of a request that may not do its operation on the resource; None if it may."""
    if may(ctx, resource_type, name, operation):
        return None
    return deny(ctx, resource_type, name, operation)


def require(
    ctx: RequestContext,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    operation: Operation | None = None,
) -> None:
    """Raise the error of a request that may not do its operation on the resource."""
    if not may(ctx, resource_type, name, operation):
        raise deny(ctx, resource_type, name, operation)


def deny(
    ctx: RequestContext,
    resource_type: ResourceType,
    name: str,
    operation: Operation | None = None,
    *,
    is_named: bool = True,
) -> KafkaError:
    """Write a denial to the audit log; return its error.

    `is_named` is whether the request has the name: if it has an id, the answer must not reveal the name.
    """
    if operation is None:
        operation = OPERATIONS[ctx.api_key, resource_type]
    ctx.services.denials[operation.name] += 1
    if ctx.services.audit is not None:
        ctx.services.audit.denied(ctx, operation, resource_type, name)
    what = resource_type.name.lower().replace("_", " ")
    where = f" {name!r}" if is_named and resource_type != ResourceType.CLUSTER else ""
    return REFUSALS[resource_type](f"{ctx.principal} is not allowed {operation.name} on the {what}{where}")


def may_write_any_topic(ctx: RequestContext) -> bool:
    """Return whether the client may write to some topic (KIP-679)."""
    authorizer, connection = ctx.services.authorizer, ctx.connection
    return authorizer is None or authorizer.allows_any(
        connection.principal, connection.host, Operation.WRITE, ResourceType.TOPIC
    )


def authorized_operations(ctx: RequestContext, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
    """Return the operations that the client may do with a resource, as the bit field of responses."""
    authorizer, connection = ctx.services.authorizer, ctx.connection
    if authorizer is None:
        return ALL_OPERATIONS[resource_type]
    return authorizer.operations(connection.principal, connection.host, resource_type, name)


def cluster_operations(ctx: RequestContext) -> int:
    """Return the authorized operations of the cluster; none if the client may not describe it."""
    if not may(ctx, ResourceType.CLUSTER, operation=Operation.DESCRIBE):
        return 0
    return authorized_operations(ctx, ResourceType.CLUSTER)


def split_allowed(
    ctx: RequestContext, resource_type: ResourceType, items: Iterable[tuple[str, T]]
) -> tuple[list[T], dict[str, KafkaError]]:
    """Return the items whose resource is allowed, and the errors of the names that are not."""
    allowed: list[T] = []
    refused: dict[str, KafkaError] = {}
    for name, item in items:
        error = refused.get(name) or refusal(ctx, resource_type, name)
        if error is None:
            allowed.append(item)
        else:
            refused[name] = error
    return allowed, refused


def config_refusal(ctx: RequestContext, resource_type: int, name: str) -> KafkaError | None:
    """Return the error of a request that may not read or change the configs of a resource."""
    if resource_type == ConfigResource.TOPIC:
        return refusal(ctx, ResourceType.TOPIC, name)
    if resource_type == ConfigResource.GROUP:
        return refusal(ctx, ResourceType.GROUP, name)
    return refusal(ctx, ResourceType.CLUSTER)
