"""One interface over the three client libraries, so that one table of tests drives them all.

Everything here is synchronous and bounded by a deadline. Whatever a library raises for an error that the
broker answered becomes `Refused` with the protocol's error code.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import pytest
from tests.waiting import wait_until as wait_until

from ottla.protocol.errors import KafkaError

DEADLINE_S = 30.0
CREATE_TIME, LOG_APPEND_TIME = 0, 1

NewName = Callable[[], str]
Headers = Sequence[tuple[str, bytes | None]]
Place = tuple[str, int]  # topic, partition


class HasAddress(Protocol):
    """The broker under test: where it listens, and where its files are."""

    address: str
    data: Path


class Outgoing(NamedTuple):
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int = 0


class Incoming(NamedTuple):
    """A record received."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    timestamp_type: int


def incoming(polled: Mapping[Any, Iterable[Any]]) -> list[Incoming]:
    """Return what a library has polled, by partition."""
    return [
        Incoming(
            one.partition,
            one.offset,
            one.key,
            one.value,
            tuple(one.headers),
            one.timestamp,
            one.timestamp_type,
        )
        for records in polled.values()
        for one in records
    ]


class ConfigValue(NamedTuple):
    """A config as DescribeConfigs gives it; the source by its Kafka name."""

    value: str | None
    source: str
    read_only: bool


class Refused(Exception):
    """The broker, or the library in its name, answered with an error."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(f"error {code}: {text}")
        self.code = code


@dataclass(frozen=True)
class ProducerOptions:
    """What a test may ask of a producer."""

    acks: str = "all"  # "0", "1" or "all"
    codec: str = "none"
    idempotent: bool = False
    max_request_bytes: int = 1_048_576
    batch_bytes: int = 16_384
    linger_ms: int = 5


class Producer(ABC):
    """Sends records and knows where each one landed."""

    @abstractmethod
    def send(self, topic: str, records: Sequence[Outgoing]) -> list[int | None]:
        """Send all, wait for all, return their offsets (None with acks=0); Refused at the first error."""

    @abstractmethod
    def partition_count(self, topic: str) -> int:
        """Return how many partitions this producer believes the topic to have."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Consumer(ABC):
    """Reads assigned partitions from explicit offsets; never joins a group, never commits."""

    @abstractmethod
    def assign(self, positions: Mapping[Place, int]) -> None:
        """Read exactly these partitions, from these offsets."""

    @abstractmethod
    def seek(self, place: Place, offset: int) -> None: ...

    @abstractmethod
    def poll(self, max_records: int, timeout_s: float) -> list[Incoming]:
        """Return what has arrived, at most `max_records`; Refused when the broker answered an error."""

    @abstractmethod
    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None: ...

    @abstractmethod
    def beginning(self, place: Place) -> int: ...

    @abstractmethod
    def end(self, place: Place) -> int: ...

    @abstractmethod
    def close(self) -> None: ...

    def take(self, count: int, within_s: float = DEADLINE_S) -> list[Incoming]:
        """Return exactly `count` records, or fail."""
        taken: list[Incoming] = []
        deadline = time.monotonic() + within_s
        while len(taken) < count:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"only {len(taken)} of {count} records within {within_s:g} s: {taken[-3:]}"
            taken += self.poll(count - len(taken), min(left_s, 1.0))
        return taken

    def read(self, place: Place, offset: int, count: int) -> list[Incoming]:
        """Assign one partition at `offset` and take `count` records from there."""
        self.assign({place: offset})
        return self.take(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client(ABC):
    """One client library, aimed at one broker: makes producers and consumers, and is the admin itself."""

    name: str

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def producer(self, **options: Any) -> Producer:
        """Return a producer; the options are those of `ProducerOptions`."""
        return self.make_producer(ProducerOptions(**options))

    @abstractmethod
    def make_producer(self, options: ProducerOptions) -> Producer: ...

    @abstractmethod
    def consumer(self, reset: str = "none") -> Consumer:
        """Return a consumer; `reset` (none, earliest, latest) says what an offset out of range does."""

    @abstractmethod
    def request_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Ask for a topic; Refused when the answer is an error."""

    @abstractmethod
    def delete_topic(self, name: str) -> None: ...

    @abstractmethod
    def request_partitions(self, name: str, total: int) -> None: ...

    @abstractmethod
    def partition_count(self, topic: str) -> int:
        """Return how many partitions with a leader the broker knows; 0 when there is no such topic."""

    @abstractmethod
    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Return the topic's id; None when there is no such topic."""

    @abstractmethod
    def broker_id(self) -> int: ...

    @abstractmethod
    def configs(self, kind: str, name: str) -> dict[str, ConfigValue]:
        """Describe a resource; `kind` is topic or broker."""

    @abstractmethod
    def alter_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        """Set these keys and leave the others; None puts a key back to its default."""

    @abstractmethod
    def delete_records(self, place: Place, before_offset: int) -> int:
        """Move the log start and return where it is now."""

    @abstractmethod
    def offset_of_max_timestamp(self, place: Place) -> int: ...

    @abstractmethod
    def close(self) -> None: ...

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic and return its name when it can be used."""
        self.request_topic(name, partitions, configs or {})
        wait_until(lambda: self.partition_count(name) == partitions, f"{name} to have {partitions} leaders")
        return name

    def grow_topic(self, name: str, total: int) -> None:
        """Add partitions and return when they can be used."""
        self.request_partitions(name, total)
        wait_until(lambda: self.partition_count(name) == total, f"{name} to have {total} leaders")


@contextmanager
def refused_with(error: type[KafkaError]) -> Iterator[None]:
    """Expect exactly this answer."""
    with pytest.raises(Refused) as refused:
        yield
    assert refused.value.code == error.code.value


def values(prefix: str, count: int) -> list[Outgoing]:
    """Return records that tell where they come from."""
    return [Outgoing(f"{prefix} {index}".encode()) for index in range(count)]
