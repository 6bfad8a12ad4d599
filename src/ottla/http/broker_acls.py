"""Decides by the ACLs of the brokers what a user of HTTP may do.

The ACLs are read again every REFRESH_S, and decided by the brokers' own code. While the brokers do not answer
for longer than STALE_S, everything is refused with 503: a revoked right must not live on.

What Kafka has no resource type for (a subject, a connector) is a TOPIC resource whose name begins with its
kind: `Subject:orders-value`. No topic can have such a name, every tool for ACLs can write it, and Apache
Kafka keeps it as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from ottla.client.admin.acls import Acl, Acls
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.tasks import cancel_and_wait
from ottla.http.errors import HttpError
from ottla.protocol.errors import KafkaError
from ottla.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.security.authorizer import Authorizer

log = logging.getLogger(__name__)

REFRESH_S = 2.0
STALE_S = 60.0


class BrokerAcls:
    """The brokers' ACLs; use it as `async with BrokerAcls(options, super_users)`."""

    def __init__(self, options: ClientOptions, super_users: Iterable[str] = ()) -> None:
        self._cluster = Cluster(options=options)
        self._authorizer = Authorizer(super_users)
        self._acls: tuple[AclBinding, ...] = ()
        self._read_at = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._cluster.start()
            await self.refresh()
        except BaseException:
            await self._cluster.close()
            raise
        self._task = asyncio.create_task(self._follow(), name="follow ACLs")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cancel_and_wait(self._task)
        await self._cluster.close()

    async def refresh(self) -> None:
        """Read the ACLs now; raises what the brokers answer."""
        found = tuple(map(_binding, await Acls(self._cluster).describe()))
        self._read_at = asyncio.get_running_loop().time()
        if found != self._acls:
            self._acls = found
            self._authorizer.update(found)

    def allows(self, principal: str, host: str, operation: Operation, name: str) -> bool:
        """Return whether a principal may act on a named resource, such as `Subject:orders-value`."""
        return self._decide(principal, host, operation, ResourceType.TOPIC, name)

    def allows_on_cluster(self, principal: str, host: str, operation: Operation) -> bool:
        """Return whether a principal may do something with the whole service."""
        return self._decide(principal, host, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def _decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        if asyncio.get_running_loop().time() - self._read_at > STALE_S:
            raise HttpError(503, 503, "The brokers do not answer, so rights cannot be checked")
        return self._authorizer.allows(principal, host, operation, kind, name)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.refresh()
            except (ClientError, KafkaError) as error:
                log.warning("the ACLs could not be read: %s", error)


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(
        resource_type=ResourceType[acl.resource_type.upper()],
        resource_name=acl.resource_name,
        pattern_type=PatternType[acl.pattern.upper()],
        principal=acl.principal,
        host=acl.host,
        operation=Operation[acl.operation.upper()],
        permission=Permission[acl.permission.upper()],
    )
