"""One interface over the members of consumer groups in the three client libraries.

A `GroupConsumer` is one library's consumer, used from one thread. A `Member` is that thread: it polls all the
time, as a program would, and remembers what it read and its assignments. Tests look at it and wait
for conditions; nothing here waits for time to pass.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from tests.integration.clients import DEADLINE_S, Place, wait_until

POLL_S = 0.05


class Read(NamedTuple):
    """A record that a member has read."""

    topic: str
    partition: int
    offset: int
    value: bytes | None


class Event(NamedTuple):
    """A rebalance callback: `assigned`, `revoked` or `lost`."""

    what: str
    places: frozenset[Place]


@dataclass(frozen=True)
class MemberOptions:
    """What a test may ask of a member."""

    group: str
    topics: tuple[str, ...]
    assignor: str | None = None  # None: what the library does by itself
    instance_id: str | None = None
    auto_commit: bool = False
    session_ms: int = 10_000
    client_id: str = "member"


class GroupConsumer(ABC):
    """One library's consumer, subscribed. Its events are appended while it polls."""

    events: list[Event]

    @abstractmethod
    def poll(self, timeout_s: float) -> list[Read]:
        """Return what has arrived; keep the membership alive."""

    @abstractmethod
    def assignment(self) -> set[Place]: ...

    @abstractmethod
    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        """Commit these offsets, or the position, and return when the broker has them."""

    @abstractmethod
    def commit_soon(self) -> None:
        """Commit the position without waiting."""

    @abstractmethod
    def committed(self, place: Place) -> int | None: ...

    @abstractmethod
    def close(self) -> None:
        """Leave the group, unless the membership is static, and close."""


class Library(NamedTuple):
    """A client library, how it makes members, and which assignors it knows."""

    name: str
    consumer: Callable[[str, MemberOptions], GroupConsumer]
    assignors: tuple[str, ...]
    protocol: str = "classic"


@dataclass
class Member:
    """A consumer in a thread of its own."""

    make: Callable[[], GroupConsumer]
    read: list[Read] = field(default_factory=list)
    owned: set[Place] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._failure: BaseException | None = None
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[GroupConsumer], Any]]] = (
            queue.SimpleQueue()
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="member", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def do(self, call: Callable[[GroupConsumer], Any]) -> Any:
        """Run `call` with the consumer, in its thread, between two polls."""
        future: Future[Any] = Future()
        self._calls.put((future, call))
        return future.result(DEADLINE_S)

    def stop(self) -> None:
        """Close the consumer and wait for its thread; raise what went wrong in it."""
        self._stopping.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "a member's consumer does not close"
        self.check()

    def check(self) -> None:
        """Raise what went wrong in the thread."""
        if self._failure is not None:
            raise AssertionError("a member failed") from self._failure

    def _run(self) -> None:
        try:
            consumer = self.make()
            self.events = consumer.events
            while not self._stopping.is_set():
                self._answer_calls(consumer)
                self.read += consumer.poll(POLL_S)
                self.owned = consumer.assignment()
            consumer.close()
            self.owned = set()
        except BaseException as error:
            self._failure = error

    def _answer_calls(self, consumer: GroupConsumer) -> None:
        while not self._calls.empty():
            future, call = self._calls.get()
            try:
                future.set_result(call(consumer))
            except BaseException as error:
                future.set_exception(error)


def wait_for(members: Iterable[Member], condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; fail at once when a member has failed."""
    watched = list(members)

    def holds() -> bool:
        for member in watched:
            member.check()
        return condition()

    wait_until(holds, what)


def wait_until_shared(
    members: Collection[Any], places: Iterable[Place], shares: Collection[int] | None = None
) -> None:
    """Wait until every place has exactly one owner; `shares` are how many each owns, in any order."""
    wanted = sorted(places)

    def is_shared() -> bool:
        for member in members:
            member.check()
        owned = [set(member.owned) for member in members]
        if sorted(place for each in owned for place in each) != wanted:
            return False
        return shares is None or sorted(map(len, owned)) == sorted(shares)

    wait_until(is_shared, f"{len(members)} members to share {len(wanted)} partitions")


def places_of(topic: str, partitions: int) -> list[Place]:
    """Return all partitions of a topic."""
    return [(topic, index) for index in range(partitions)]
