"""Fixtures for tests that speak to the group coordinator by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, wait_until
from tests.integration.wire import Wire, create_topic
from tests.integration.wire_groups import WireMember, stable_group

from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey

_numbers = itertools.count()

NewMember = Callable[[], WireMember]


@pytest.fixture(scope="module")
def coordinator(broker: HasAddress) -> None:
    """Find the coordinator, as every client does first: it makes `__consumer_offsets`."""

    def is_found() -> bool:
        with Wire(broker.address) as wire:
            (found,) = wire.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["any"]).coordinators
        return found.error_code == ErrorCode.none

    wait_until(is_found, "a coordinator")


@pytest.fixture
def wire(broker: HasAddress, coordinator: None) -> Iterator[Wire]:
    with Wire(broker.address) as connection:
        yield connection


@pytest.fixture
def group(coordinator: None) -> str:
    """A group that nobody has used before."""
    return f"group-{new_uuid().hex[:8]}-{next(_numbers)}"


@pytest.fixture(scope="module")
def orders(broker: HasAddress) -> str:
    """A topic with two partitions."""
    with Wire(broker.address) as wire:
        name = f"orders-{new_uuid().hex[:8]}"
        create_topic(wire, name, partitions=2)
    return name


@pytest.fixture
def new_member(broker: HasAddress, group: str, orders: str) -> Iterator[NewMember]:
    """Make members that have not joined yet."""
    made: list[WireMember] = []

    def make() -> WireMember:
        made.append(WireMember(broker.address, group, orders))
        return made[-1]

    yield make
    for each in made:
        each.__exit__()


@pytest.fixture
def member(broker: HasAddress, group: str, orders: str) -> Iterator[WireMember]:
    """The only member of a stable group."""
    with stable_group(broker.address, group, orders) as joined:
        yield joined
