"""Fixtures for tests of consumer groups: each library in turn, its members, topics with records in them."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, Place
from tests.integration.member_libraries import LIBRARIES
from tests.integration.member_process import MemberProcess
from tests.integration.members import Library, Member, MemberOptions
from tests.integration.wire import Wire, batch, create_topic, produce
from tests.integration.wire_partition import wait_for_leaders

from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey

BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "200",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "200",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
SHORT_SESSION_MS = 2_000
"""For members that will be killed: how long the group waits for them."""

TEN_SECONDS = datetime.timedelta(seconds=10)

_numbers = itertools.count()


class Table:
    """One library on one broker, with a group and topics of its own."""

    def __init__(self, library: Library, broker: HasAddress, stack: ExitStack) -> None:
        self.library = library
        self.broker = broker
        self.group = f"{library.name}.{new_uuid().hex[:8]}.{next(_numbers)}"
        self._stack = stack

    def topic(self, partitions: int, records: int = 0) -> str:
        """Create a topic with so many records in each partition: `0:0`, `0:1`..., `1:0`..."""
        name = f"{self.group}.{next(_numbers)}"
        with Wire(self.broker.address) as wire:
            # `batch` makes records of 2023: a broker that is half a minute old would delete them.
            create_topic(wire, name, partitions, retention_ms="-1")
            wait_for_leaders(wire, name, partitions)
        if records:
            self.produce(name, partitions, records)
        return name

    def produce(self, topic: str, partitions: int, records: int, first: int = 0) -> None:
        """Append records to each partition."""
        with Wire(self.broker.address) as wire:
            for index in range(partitions):
                values = [f"{index}:{number}".encode() for number in range(first, first + records)]
                assert produce(wire, topic, batch(*values), partition=index).error_code == 0

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic."""
        with Wire(self.broker.address) as wire:
            wanted = {"name": topic, "count": partitions, "assignments": None}
            response = wire.call(ApiKey.CREATE_PARTITIONS, 3, topics=[wanted], timeout=TEN_SECONDS)
            assert response.results[0].error_code == ErrorCode.none
            wait_for_leaders(wire, topic, partitions)

    def options(self, *topics: str, **options: Any) -> MemberOptions:
        return MemberOptions(**{"group": self.group, "topics": topics, **options})

    def member(self, *topics: str, **options: Any) -> Member:
        """Start a member; it is stopped at the end of the test if it is still there."""
        wanted = self.options(*topics, **options)
        made = Member(lambda: self.library.consumer(self.broker.address, wanted))
        self._stack.enter_context(made)
        return made

    def process(self, *topics: str, **options: Any) -> MemberProcess:
        """Start a member in a process of its own."""
        wanted = self.options(*topics, **options)
        return self._stack.enter_context(MemberProcess(self.library, self.broker.address, wanted))

    def committed(self, *places: Place) -> list[int]:
        """Return the group's committed offsets, -1 for none, as a stranger sees them."""
        with Wire(self.broker.address) as wire:
            group = {"group_id": self.group, "topics": None}
            response = wire.call(ApiKey.OFFSET_FETCH, 9, groups=[group])
        assert response.groups[0].error_code == ErrorCode.none
        found = {
            (topic.name, each.partition_index): each.committed_offset
            for topic in response.groups[0].topics
            for each in topic.partitions
        }
        return [found.get(place, -1) for place in places]


MakeTable = Callable[[Library], Table]


@contextmanager
def open_tables(broker: HasAddress) -> Iterator[MakeTable]:
    """Return what makes a table; at the end, all members of all tables are stopped."""
    with ExitStack() as stack:
        yield lambda library: Table(library, broker, stack)


@pytest.fixture
def make_table(broker: HasAddress) -> Iterator[MakeTable]:
    with open_tables(broker) as make:
        yield make


@pytest.fixture(params=LIBRARIES)
def table(request: pytest.FixtureRequest, make_table: MakeTable) -> Table:
    """Each library in turn."""
    return make_table(LIBRARIES[request.param])
