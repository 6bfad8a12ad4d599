"""The types shared by the metadata store and the connection to ZooKeeper: nodes, operations, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.metadata.records import MetadataError
from ottla.metadata.store import StoreUnavailable


class NoNode(MetadataError):
    """There is no such node."""


class NodeExists(MetadataError):
    """The node already exists."""


class NodeChanged(MetadataError):
    """The node is no longer at the expected version."""


class NotAuthenticated(StoreUnavailable):
    """ZooKeeper rejects our credentials; the message says what to set."""


class RolledBack(MetadataError):
    """One of several operations failed, so none was applied. `index` says which, the cause says why."""

    def __init__(self, index: int, cause: Exception) -> None:
        super().__init__(f"operation {index} failed: {cause!r}")
        self.index = index
        self.cause = cause


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """How to reach ZooKeeper. `options` are passed to kazoo as they are (TLS, SASL, ACLs)."""

    connect: str
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    options: Mapping[str, Any] = field(default_factory=dict)


class Node(NamedTuple):
    """A node of ZooKeeper."""

    data: bytes
    version: int
    created_zxid: int
    owner: int
    """The session of an ephemeral node, otherwise 0."""


class Check(NamedTuple):
    """Require a node to be at this version."""

    path: str
    version: int


class Put(NamedTuple):
    """Set the data of a node that is at this version."""

    path: str
    data: bytes
    version: int


class Create(NamedTuple):
    """Create a node; an ephemeral one lives as long as the session."""

    path: str
    data: bytes
    is_ephemeral: bool = False


class Delete(NamedTuple):
    """Delete a node that is at this version (-1: any)."""

    path: str
    version: int = -1


Operation = Check | Put | Create | Delete


def build_transaction(transaction: Any, operations: Sequence[Operation]) -> Any:
    """Add the operations to a transaction of kazoo."""
    for each in operations:
        match each:
            case Check(path, version):
                transaction.check(path, version)
            case Put(path, data, version):
                transaction.set_data(path, data, version)
            case Create(path, data, is_ephemeral):
                transaction.create(path, data, ephemeral=is_ephemeral)
            case Delete(path, version):
                transaction.delete(path, version)
    return transaction
