"""The pytest plugin: real brokers for the tests of programs that use Kafka, whichever client they use.

    def test_orders_are_announced(ottla_broker):
        shop = Shop(bootstrap_servers=ottla_broker.bootstrap_servers)
        shop.order("tea")
        ottla_broker.topic("orders").assert_received(b"tea")

    def test_orders_survive_a_broker(ottla_cluster):
        cluster = ottla_cluster(3)
        ...
        cluster.kill(leader_of="orders")

    @pytest.mark.ottla(num_partitions=3, data="tmp_path")      # settings of the broker; where its files are
    def test_with_settings(ottla_broker): ...

Each test gets brokers of its own: they are up in milliseconds, on free ports (so with xdist
too), in memory, and leave nothing behind. See docs/testing.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:  # every run of pytest imports this file through the entry point: it must cost nothing
    from ottla.testing.local_broker import OttlaBroker
    from ottla.testing.local_cluster import LocalCluster

MEMORY, TMP_PATH = "memory", "tmp_path"


class NewCluster(Protocol):
    """What the fixture `ottla_cluster` is: call it for a cluster."""

    def __call__(self, brokers: int = 3, *, data: str | Path = MEMORY, **settings: object) -> LocalCluster:
        """Return a cluster of so many brokers, running; it ends with the test."""
        ...


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line(
        "markers",
        "ottla(data='memory', **settings): settings of the broker of `ottla_broker` (num_partitions=3), and "
        "where its files are: memory, tmp_path, or a folder",
    )


@pytest.fixture
def ottla_broker(request: pytest.FixtureRequest) -> Iterator[OttlaBroker]:
    """A broker for this test; the marker `ottla` configures it."""
    from ottla.testing.local_broker import OttlaBroker

    given: dict[str, object] = {}
    for marker in reversed(list(request.node.iter_markers("ottla"))):  # the closest marker last: it wins
        given |= marker.kwargs
    data = given.pop("data", MEMORY)
    assert isinstance(data, str | Path), "data is 'memory', 'tmp_path' or a folder"
    with OttlaBroker(folder=_folder(data, request), settings=given) as broker:
        yield broker


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest) -> Iterator[NewCluster]:
    """A function that makes clusters for this test: `cluster = ottla_cluster(3)`."""
    from ottla.testing.local_cluster import LocalCluster

    with ExitStack() as running:

        def new_cluster(brokers: int = 3, *, data: str | Path = MEMORY, **settings: object) -> LocalCluster:
            folder = _folder(data, request)
            return running.enter_context(LocalCluster(brokers, folder=folder, settings=settings))

        yield new_cluster


def _folder(data: str | Path, request: pytest.FixtureRequest) -> Path | None:
    if data == MEMORY:
        return None
    if data == TMP_PATH:
        folder: Path = request.getfixturevalue("tmp_path")
        return folder
    return Path(data)
