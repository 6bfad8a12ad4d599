"""The controller terms in ZooKeeper, if the response to an append is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from ottla.metadata.records import ConfigChanged, ConfigResource
from ottla.metadata.store import StoreUnavailable, VersionConflict
from ottla.metadata.zookeeper.client import ZooKeeperClient
from ottla.metadata.zookeeper.log import EPOCH, ZooKeeperLog
from ottla.metadata.zookeeper.types import Check, Create, Node, NoNode, Operation, Put, RolledBack

RECORDS = [ConfigChanged(ConfigResource.BROKER, "", "key", "value")]


class Nodes:
    """The nodes of a ZooKeeper, which applies what it is asked for, but may not answer."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int]] = {}
        self.is_silent = False

    async def ensure(self, path: str, data: bytes = b"") -> None:
        self.nodes.setdefault(path, (data, 0))

    async def get(self, path: str, watch: Any = None) -> Node:
        if path not in self.nodes:
            raise NoNode(path)
        return Node(*self.nodes[path], 0, 0)

    async def transact(self, operations: Sequence[Operation], *, retrying: bool = False) -> list[Any]:
        for index, each in enumerate(operations):
            if isinstance(each, Check | Put) and self.nodes[each.path][1] != each.version:
                raise RolledBack(index, VersionConflict(each.path))
        for each in operations:
            if isinstance(each, Put):
                self.nodes[each.path] = each.data, each.version + 1
            elif isinstance(each, Create):
                self.nodes[each.path] = each.data, 0
        if self.is_silent:
            raise StoreUnavailable("no answer")
        return [self.nodes[each.path][1] for each in operations]


async def test_a_controller_has_one_term_also_if_its_first_append_was_not_answered() -> None:
    """Brokers read the terms with the first entry of a controller: a second one would be another history."""
    server = Nodes()
    log = ZooKeeperLog(cast("ZooKeeperClient", server))
    await log.prepare()
    server.nodes[EPOCH] = b"7", 0
    server.is_silent = True
    with pytest.raises(StoreUnavailable):
        await log.append(RECORDS, 0, 7)
    (first,) = await log.terms()
    server.is_silent = False
    with pytest.raises(VersionConflict):
        await log.append(RECORDS, 0, 7)
    assert await log.append(RECORDS, 1, 7) == 2
    assert await log.append(RECORDS, 2, 7) == 3
    assert await log.terms() == (first,)

    server.nodes[EPOCH] = b"8", 1
    assert await log.append(RECORDS, 3, 8) == 4
    assert [each.start_version for each in await log.terms()] == [1, 4]
