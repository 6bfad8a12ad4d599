"""What the metadata store and the connection to ZooKeeper say to each other: nodes, operations, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.metadata.records import MetadataError
from ottla.metadata.store import StoreUnavailable


class NoNode(MetadataError):
    """There is no such node."""


class NodeExists(MetadataError):
    """The node is there already."""


class NodeChanged(MetadataError):
    """The node is not at the expected version any more."""


class NotAuthenticated(StoreUnavailable):
    """ZooKeeper does not let us in; the message says what to set."""


class RolledBack(MetadataError):
    """One operation of several failed, so none of them happened. `index` says which, the cause says why."""

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
    """A node of ZooKeeper as it was read."""

    data: bytes
    version: int
    created_zxid: int
    owner: int
    """The session of an ephemeral node, otherwise 0."""


class Check(NamedTuple):
    """The node must be at this version."""

    path: str
    version: int


class Put(NamedTuple):
    """The node, if it is at this version, gets new data."""

    path: str
    data: bytes
    version: int


class Create(NamedTuple):
    """A new node; an ephemeral one lives as long as the session."""

    path: str
    data: bytes
    is_ephemeral: bool = False


class Delete(NamedTuple):
    """The node, if it is at this version (-1: any), goes."""

    path: str
    version: int = -1


Operation = Check | Put | Create | Delete


def transaction_of(transaction: Any, operations: Sequence[Operation]) -> Any:
    """Put the operations into a transaction of kazoo."""
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
