"""The three client libraries, aimed at the module's broker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.integration.clients import Client, Consumer, HasAddress, NewName, Producer
from tests.integration.group_table import make_table, table
from tests.integration.group_wires import coordinator, group, member, new_member, orders, wire
from tests.integration.libraries import LIBRARIES
from tests.integration.ottla_consumers import admin, new_topic, write
from tests.integration.registry_stage import RunningRegistry

from ottla.common.ids import new_uuid
from ottla.testing.local_broker import OttlaBroker

__all__ = [
    "admin", "coordinator", "group", "make_table", "member", "new_member", "new_topic", "orders", "table",
    "wire", "write",
]  # fmt: skip

_numbers = itertools.count()


@pytest.fixture(scope="module")
def clients(broker: HasAddress) -> Iterator[dict[str, Client]]:
    """All libraries by name."""
    opened = {name: library(broker.address) for name, library in LIBRARIES.items()}
    yield opened
    for client in opened.values():
        client.close()


@pytest.fixture(scope="module")
def registry(broker: OttlaBroker) -> Iterator[RunningRegistry]:
    """A schema registry over the module's broker."""
    with RunningRegistry(broker.bootstrap_servers) as running:
        yield running


@pytest.fixture(params=LIBRARIES)
def client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    """Each library in turn."""
    return clients[request.param]


@pytest.fixture
def new_name(client: Client) -> NewName:
    """Make topic names that nobody has used before, on a broker that may outlive the test run."""
    run = new_uuid().hex[:8]
    return lambda: f"{client.name}.{run}.{next(_numbers)}"


@pytest.fixture
def producer(client: Client) -> Iterator[Producer]:
    with client.producer() as opened:
        yield opened


@pytest.fixture
def consumer(client: Client) -> Iterator[Consumer]:
    with client.consumer() as opened:
        yield opened


@pytest.fixture
def topic(client: Client, new_name: NewName) -> str:
    """A topic with one partition and no overrides."""
    return client.create_topic(new_name())
