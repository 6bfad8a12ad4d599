"""Requests that wait: a fetch for bytes. Nothing runs for an idle waiter.

A parked request registers with the partitions it watches. A partition that grows, or goes away,
tells its watchers; one timer per parked request ends the wait at the latest at its deadline. So the
cost of waiting is a dictionary entry and a timer, and no time at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Watcher(Protocol):
    """One who wants to know when a partition grows."""

    def grown(self, size_bytes: int) -> None:
        """Take note that `size_bytes` more can be read."""
        ...

    def wake(self) -> None:
        """Stop waiting: something other than growth happened."""
        ...


class Watched(Protocol):
    """A partition, as the purgatory sees it."""

    watchers: dict[Watcher, int | None]

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which every transaction has ended."""
        ...


class DelayedRequest(Generic[T]):
    """One waiting request. Its future gets what `finish` returns, once."""

    __slots__ = ("_committed_only", "_finish", "_needed_bytes", "_timer", "_watched", "future")

    def __init__(
        self, needed_bytes: int, watched: Collection[Watched], finish: Callable[[], T], committed_only: bool
    ) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._needed_bytes = needed_bytes
        self._watched = watched
        self._finish = finish
        self._committed_only = committed_only
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_ms: int) -> None:
        """Register with the partitions and set the timer."""
        for partition in self._watched:
            partition.watchers[self] = partition.last_stable_offset if self._committed_only else None
        self._timer = self.future.get_loop().call_later(timeout_ms / 1000, self.wake)
        # `Purgatory.leave` cancels the future when the client goes away.
        self.future.add_done_callback(self._leave)

    def grown(self, size_bytes: int) -> None:
        """Count what arrived, and finish when it is enough."""
        self._needed_bytes -= size_bytes
        if self._needed_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Finish now, with whatever there is."""
        if self.future.done():
            return
        self._unregister()
        try:
            self.future.set_result(self._finish())
        except Exception as error:
            self.future.set_exception(error)

    def _leave(self, _future: asyncio.Future[T]) -> None:
        self._unregister()

    def _unregister(self) -> None:
        for partition in self._watched:
            partition.watchers.pop(self, None)
        self._watched = ()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Purgatory:
    """All parked requests of this broker, by the connection that each came in on."""

    def __init__(self) -> None:
        self._parked: dict[object, DelayedRequest[Any]] = {}
        self._stopping = False

    def __len__(self) -> int:
        return len(self._parked)

    def park(
        self,
        owner: object,
        watched: Collection[Watched],
        needed_bytes: int,
        timeout_ms: int,
        finish: Callable[[], T],
        *,
        committed_only: bool = False,
    ) -> asyncio.Future[T]:
        """Return a future for `finish()`, called when the partitions grew enough or time is up.

        With `committed_only`, what belongs to open transactions does not count until they have ended.
        `owner` waits for one thing at a time; when it goes away, `leave` ends the wait.
        """
        parked = DelayedRequest(needed_bytes, watched, finish, committed_only)
        self._parked[owner] = parked
        parked.future.add_done_callback(lambda _future: self._forget(owner, parked))
        parked.start(0 if self._stopping else timeout_ms)
        return parked.future

    def cancel(self, owner: object) -> None:
        """Stop waiting for an owner that went away."""
        parked = self._parked.get(owner)
        if parked is not None:
            parked.future.cancel()

    def stop(self) -> None:
        """Answer everything that waits, and let nothing wait from now on."""
        self._stopping = True
        for parked in list(self._parked.values()):
            parked.wake()

    def _forget(self, owner: object, parked: DelayedRequest[Any]) -> None:
        if self._parked.get(owner) is parked:
            del self._parked[owner]
