"""Looks up the coordinators of groups and transactional ids, and caches them."""

from __future__ import annotations

from enum import IntEnum

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator import v3 as find_one
from kio.schema.find_coordinator import v6 as find_many

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.types import i8
from ottla.wire.connection import Connection

FIRST_FIND_OF_MANY = 4

NOT_COORDINATOR = frozenset({ErrorCode.not_coordinator})
"""Retriable after `forget`, beside the errors that `retrying` retries anyway."""


class CoordinatorKind(IntEnum):
    """The kind of coordinator."""

    GROUP = 0
    TRANSACTION = 1


KnownCoordinators = dict[tuple[CoordinatorKind, str], int]


class Coordinators:
    """The coordinators that a client knows; several clients of a cluster may share what they know."""

    def __init__(self, cluster: Cluster, known: KnownCoordinators | None = None) -> None:
        self._cluster = cluster
        self._known: KnownCoordinators = {} if known is None else known

    async def find(self, kind: CoordinatorKind, key: str) -> int:
        """Return the node id of the coordinator; look it up if it is not cached."""
        node_id = self._known.get((kind, key))
        if node_id is None:
            node_id = self._known[kind, key] = await find_coordinator(self._cluster, kind, key)
        return node_id

    async def connect(self, kind: CoordinatorKind, key: str) -> Connection:
        """Return a connection to the coordinator; forget it if it cannot be reached."""
        node_id = await self.find(kind, key)
        try:
            return await self._cluster.broker(node_id)
        except BaseException:
            self.forget(kind, key)
            raise

    def open_connection(self, kind: CoordinatorKind, key: str) -> Connection | None:
        """Return the connection to the coordinator if it is cached, open and ready."""
        node_id = self._known.get((kind, key))
        connection = None if node_id is None else self._cluster.open_connection(node_id)
        return connection if connection is not None and connection.is_ready else None

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """Look it up again the next time: it moved, or cannot be reached."""
        self._known.pop((kind, key), None)


async def find_coordinator(cluster: Cluster, kind: CoordinatorKind, key: str) -> int:
    """Return the node id of the coordinator, from any broker (FindCoordinator)."""
    connection = await cluster.any_broker()
    key_type = i8(kind)
    if connection.version_of(ApiKey.FIND_COORDINATOR, 6) < FIRST_FIND_OF_MANY:
        one = find_one.FindCoordinatorRequest(key=key, key_type=key_type)
        answer = await connection.request(one, find_one.FindCoordinatorResponse)
        raise_for(answer.error_code, answer.error_message or key)
        return answer.node_id
    many = find_many.FindCoordinatorRequest(coordinator_keys=(key,), key_type=key_type)
    (found,) = (await connection.request(many, find_many.FindCoordinatorResponse)).coordinators
    raise_for(found.error_code, found.error_message or key)
    return found.node_id
