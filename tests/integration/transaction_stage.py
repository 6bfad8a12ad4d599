"""Fixtures for tests of transactions: each library in turn, with names that nobody else has."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import HasAddress, Outgoing, Place, wait_until
from tests.integration.transaction_libraries import ALL
from tests.integration.transactions import END, Reader, TransactionalProducer, TransactionLibrary
from tests.integration.wire import Wire, batch, create_topic, produce
from tests.integration.wire_partition import wait_for_leaders
from tests.integration.wire_transactions import fetch_offsets

from ottla.common.ids import new_uuid

BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}


class Stage:
    """One broker and one library; what it opens is closed with it."""

    def __init__(self, broker: HasAddress, library: TransactionLibrary, stack: ExitStack) -> None:
        self.broker = broker
        self.library = library
        self.address = broker.address
        self._stack = stack
        self._names = (f"{library.name}.{new_uuid().hex[:8]}.{number}" for number in itertools.count())

    def name(self) -> str:
        """Return a name for a topic, a group or a transactional id."""
        return next(self._names)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic."""
        name = self.name()
        with Wire(self.address) as wire:
            create_topic(wire, name, partitions, **configs)
            wait_for_leaders(wire, name, partitions)
        return name

    def producer(
        self, transactional_id: str | None = None, *, through: str | None = None, **options: int
    ) -> TransactionalProducer:
        """Open a producer of this library, initialised; `through` is the address of a proxy."""
        address = through or self.address
        return self._stack.enter_context(
            self.library.producer(address, transactional_id or self.name(), **options)
        )

    def reader(self, group: str = "nobody", committed: bool = True) -> Reader:
        """Open a reader of this library."""
        return self._stack.enter_context(self.library.reader(self.address, group, committed))

    def fill(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        """Append plain records to a partition."""
        records = batch(*values, timestamp=time.time_ns() // 1_000_000)  # old ones would not be retained
        with Wire(self.address) as wire:
            assert produce(wire, topic, records, partition=partition).error_code == ErrorCode.none

    def read(self, topic: str, partitions: int = 1, committed: bool = True) -> list[list[bytes]]:
        """Say that this is the end, and return what is readable before it, by partition."""
        places = [(topic, partition) for partition in range(partitions)]
        for place in places:
            self.fill(*place, [END])
        found = self.reader(committed=committed).read_until_end(places)
        return [found[place] for place in places]

    def committed(self, group: str, *places: Place) -> list[int]:
        """Return a group's offsets once they are stable, -1 for none, as a stranger sees them."""
        found: dict[Place, int | ErrorCode] = {}

        def is_stable() -> bool:
            with Wire(self.address) as wire:
                found.update(fetch_offsets(wire, group, require_stable=True))
            return ErrorCode.unstable_offset_commit not in found.values()

        wait_until(is_stable, f"the offsets of {group} to be stable")
        return [int(found.get(place, -1)) for place in places]


@pytest.fixture(params=ALL)
def stage(request: pytest.FixtureRequest, broker: HasAddress) -> Iterator[Stage]:
    """Each library in turn."""
    with ExitStack() as stack:
        yield Stage(broker, ALL[request.param], stack)


def out(*values: bytes, partition: int = 0) -> list[Outgoing]:
    """Return records to send."""
    return [Outgoing(value, partition=partition) for value in values]
