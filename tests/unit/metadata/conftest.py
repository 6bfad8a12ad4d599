"""A real ZooKeeper for the tests of stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from ottla.broker.zookeeper_server import ZooKeeperFailed
from ottla.metadata.zookeeper.store import ZooKeeperSettings, ZooKeeperStore
from ottla.testing.cluster_process import ZooKeeperProcess

_numbers = count(1)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper for all tests: each keeps to a path of its own."""
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
    except ZooKeeperFailed as error:
        pytest.skip(str(error))
    yield server
    server.kill()


@pytest.fixture
def zookeeper_store(zookeeper: ZooKeeperProcess) -> Callable[[], ZooKeeperStore]:
    """Make stores on one path of ZooKeeper, as the brokers of a cluster do."""
    path = f"/test/{next(_numbers)}"
    return lambda: ZooKeeperStore(ZooKeeperSettings(zookeeper.address + path, session_timeout_ms=2_000))
