"""Delayed requests: fetches that wait for data. An idle request costs no CPU.

A delayed request registers with the partitions that it watches. A partition that grows, or is removed,
notifies its watchers; one timer per request ends the wait at its deadline. So waiting costs a dictionary
entry and a timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Watcher(Protocol):
    """Gets notified when a partition grows."""

    def on_growth(self, size_bytes: int) -> None:
        """Handle that `size_bytes` more can be read."""
        ...

    def wake(self) -> None:
        """Stop waiting: something other than growth happened."""
        ...


class WatchedPartition(Protocol):
    """The interface of a partition that the purgatory uses."""

    watchers: dict[Watcher, int | None]

    @property
    def last_stable_offset(self) -> int:
        """Return the offset below which every transaction has ended."""
        ...


class DelayedRequest(Generic[T]):
    """One waiting request. Its future gets the result of `finish`, once."""

    __slots__ = ("_committed_only", "_complete", "_needed_bytes", "_timer", "_watched", "future")

    def __init__(
        self,
        needed_bytes: int,
        watched: Collection[WatchedPartition],
        finish: Callable[[], T],
        committed_only: bool,
    ) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._needed_bytes = needed_bytes
        self._watched = watched
        self._complete = finish
        self._committed_only = committed_only
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_ms: int) -> None:
        """Register with the partitions and start the timer."""
        for partition in self._watched:
            partition.watchers[self] = partition.last_stable_offset if self._committed_only else None
        self._timer = self.future.get_loop().call_later(timeout_ms / 1000, self.wake)
        # `Purgatory.leave` cancels the future when the client goes away.
        self.future.add_done_callback(self._on_done)

    def on_growth(self, size_bytes: int) -> None:
        """Count what arrived, and complete when it is enough."""
        self._needed_bytes -= size_bytes
        if self._needed_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Complete now, with what is available."""
        if self.future.done():
            return
        self._unregister()
        try:
            self.future.set_result(self._complete())
        except Exception as error:
            self.future.set_exception(error)

    def _on_done(self, _future: asyncio.Future[T]) -> None:
        self._unregister()

    def _unregister(self) -> None:
        for partition in self._watched:
            partition.watchers.pop(self, None)
        self._watched = ()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Purgatory:
    """All delayed requests of this broker, by connection."""

    def __init__(self) -> None:
        self._parked: dict[object, DelayedRequest[Any]] = {}
        self._stopping = False

    def __len__(self) -> int:
        return len(self._parked)

    def park(
        self,
        owner: object,
        watched: Collection[WatchedPartition],
        needed_bytes: int,
        timeout_ms: int,
        finish: Callable[[], T],
        *,
        committed_only: bool = False,
    ) -> asyncio.Future[T]:
        """Return a future for `finish()`, called when the partitions grew enough or the timeout expired.

        With `committed_only`, records of open transactions do not count until those have ended. `owner` has
        at most one delayed request; when it disconnects, `cancel` ends the wait.
        """
        parked = DelayedRequest(needed_bytes, watched, finish, committed_only)
        self._parked[owner] = parked
        parked.future.add_done_callback(lambda _future: self._remove(owner, parked))
        parked.start(0 if self._stopping else timeout_ms)
        return parked.future

    def cancel(self, owner: object) -> None:
        """Cancel the delayed request of an owner that disconnected."""
        parked = self._parked.get(owner)
        if parked is not None:
            parked.future.cancel()

    def stop(self) -> None:
        """Complete all delayed requests, and let none wait from now on."""
        self._stopping = True
        for parked in list(self._parked.values()):
            parked.wake()

    def _remove(self, owner: object, parked: DelayedRequest[Any]) -> None:
        if self._parked.get(owner) is parked:
            del self._parked[owner]
