"""The connections of a process to a cluster, kept for the next task.

Spark reuses its Python workers, and calls them ten times a second; to connect each time would cost more than
the work. A worker is forked before it has sessions of its own.

Once connected, calls wait for an unavailable broker until the client's timeouts. A query that is being
started fails at once if its address cannot be reached.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar

from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.event_loop_thread import EventLoopThread

T = TypeVar("T")

MAX_LINKS = 16


class ClusterSession:
    """A cluster, and the event loop thread of its client."""

    def __init__(self, options: ClientOptions, *, is_patient: bool = False) -> None:
        self.options = options
        self._bridge = EventLoopThread("ottla spark")
        try:
            self.cluster = self._bridge.run(_connected(options, is_patient))
        except BaseException:
            self._bridge.close()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop and return its result."""
        return self._bridge.run(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, and return its future."""
        return self._bridge.begin(work)

    def close(self) -> None:
        """Disconnect."""
        try:
            self._bridge.run(self.cluster.close())
        finally:
            self._bridge.close()


_links: OrderedDict[tuple[int, str], ClusterSession] = OrderedDict()
_lock = Lock()


def link_to(options: ClientOptions, *, is_patient: bool = False) -> ClusterSession:
    """Return this process's session for these options; connect if there is none.

    `is_patient` is for calls in the middle of a query: it waits for an unavailable broker.
    """
    key = (os.getpid(), f"{type(options).__name__}{_secretly(options)}")
    with _lock:
        link = _links.get(key)
        if link is None:
            link = _links[key] = ClusterSession(options, is_patient=is_patient)
        _links.move_to_end(key)
        while len(_links) > MAX_LINKS:
            (pid, _), oldest = _links.popitem(last=False)
            if pid == os.getpid():
                oldest.close()
        return link


def _secretly(options: ClientOptions) -> Mapping[str, Any]:
    return {name: getattr(options, name) for name in type(options).declared()}


async def _connected(options: ClientOptions, is_patient: bool) -> Cluster:
    cluster = Cluster(options=options)
    try:
        await cluster.retrying(lambda: cluster.refresh([]), patient=is_patient)
    except BaseException:
        await cluster.close()
        raise
    cluster.is_patient = True
    return cluster
