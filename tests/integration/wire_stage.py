"""Fixtures for transactions of bare bytes: producers of every generation of the protocol."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, Place, wait_until
from tests.integration.wire import Wire, create_topic
from tests.integration.wire_partition import wait_for_leaders
from tests.integration.wire_transactions import CLASSIC, OLDEST, V2, Versions, WireProducer

from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey

OK = ErrorCode.none
GENERATIONS = {"oldest": OLDEST, "classic": CLASSIC, "v2": V2}

_numbers = itertools.count()
NewProducer = Callable[..., WireProducer]


@pytest.fixture
def wire(broker: HasAddress) -> Iterator[Wire]:
    with Wire(broker.address) as opened:
        yield opened


def new_name() -> str:
    return f"wire.{new_uuid().hex[:8]}.{next(_numbers)}"


@pytest.fixture
def group(wire: Wire) -> str:
    """The name of a group whose coordinator is at work."""
    name = new_name()

    def is_found() -> bool:
        answer = wire.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[name])
        return answer.coordinators[0].error_code == OK

    wait_until(is_found, "the group's coordinator")
    return name


@pytest.fixture
def place(wire: Wire) -> Place:
    """The first of two partitions of a topic; it can be used."""
    name = new_name()
    create_topic(wire, name, 2)
    wait_for_leaders(wire, name, 2)
    return name, 0


@pytest.fixture
def new_producer(broker: HasAddress) -> Iterator[NewProducer]:
    opened = []

    def make(versions: Versions, transactional_id: str | None = None, **fields: Any) -> WireProducer:
        opened.append(WireProducer(broker.address, transactional_id or new_name(), versions))
        return opened[-1].start(**fields)

    yield make
    for each in opened:
        each.wire.__exit__()


@pytest.fixture(params=GENERATIONS)
def producer(request: pytest.FixtureRequest, new_producer: NewProducer) -> WireProducer:
    """A producer of each generation, initialised."""
    return new_producer(GENERATIONS[request.param])


@pytest.fixture(params=["oldest", "classic"])
def classic(request: pytest.FixtureRequest, new_producer: NewProducer) -> WireProducer:
    return new_producer(GENERATIONS[request.param])


@pytest.fixture
def modern(new_producer: NewProducer) -> WireProducer:
    return new_producer(V2)
