"""One interface over the transactional producers of the three client libraries, and their committed readers.

A `TransactionalProducer` has been initialised when it is made: whoever held its transactional id before is
fenced by then. Whatever a library raises for an error of the broker, or for one of its own that means the
same, becomes `Refused`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from tests.integration.clients import DEADLINE_S, Outgoing, Place

END = b"(end)"
"""The value of the plain records that tell a reader that nothing more will come."""


@dataclass(frozen=True)
class TransactionOptions:
    """What a test may ask of a transactional producer."""

    transactional_id: str
    timeout_ms: int = 60_000
    request_timeout_ms: int = 10_000


class TransactionalProducer(ABC):
    """One library's producer with a transactional id."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, records: Sequence[Outgoing]) -> None:
        """Send all and wait until the broker has them; Refused at the first error."""

    @abstractmethod
    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Commit a group's offsets with the transaction, of a consumer that is in no group."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Close without ending the transaction that may be open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reader(ABC):
    """One library's consumer, with partitions that a test assigns, and a group's offsets."""

    @abstractmethod
    def assign(self, positions: Mapping[Place, int]) -> None:
        """Read exactly these partitions, from these offsets."""

    @abstractmethod
    def poll(self, timeout_s: float) -> list[tuple[Place, int, bytes]]:
        """Return what has arrived: place, offset, value."""

    @abstractmethod
    def end(self, place: Place) -> int:
        """Return the end of what this reader may read."""

    @abstractmethod
    def committed(self, place: Place) -> int | None:
        """Return the group's committed offset."""

    @abstractmethod
    def close(self) -> None: ...

    def read_until_end(self, places: Sequence[Place]) -> dict[Place, list[bytes]]:
        """Return all values up to the `END` in every place."""
        found: dict[Place, list[bytes]] = {place: [] for place in places}
        waiting = set(places)
        self.assign(dict.fromkeys(places, 0))
        deadline = time.monotonic() + DEADLINE_S
        while waiting:
            assert time.monotonic() < deadline, f"no end in {sorted(waiting)[:3]}; so far {found}"
            for place, _, value in self.poll(0.5):
                if value == END:
                    waiting.discard(place)
                else:
                    found[place].append(value)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TransactionLibrary(NamedTuple):
    """A client library by name, with what it makes: producers, and readers by (address, group, committed)."""

    name: str
    make_producer: Callable[[str, TransactionOptions], TransactionalProducer]
    make_reader: Callable[[str, str, bool], Reader]
    groups_at_once: int = 1_000  # whose offsets fit into one transaction

    def producer(self, address: str, transactional_id: str, **options: int) -> TransactionalProducer:
        """Return a producer, initialised; the options are those of `TransactionOptions`."""
        return self.make_producer(address, TransactionOptions(transactional_id, **options))

    def reader(self, address: str, group: str = "nobody", committed: bool = True) -> Reader:
        """Return a reader; with `committed`, of committed transactions only."""
        return self.make_reader(address, group, committed)
