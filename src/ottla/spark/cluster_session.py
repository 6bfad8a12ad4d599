"""The connections of this process to a cluster: made once, and kept for the next task.

Spark reuses its Python workers, and asks them for something ten times a second; to connect each time would
cost more than the work. A worker is forked before it has links of its own.

Once connected, whatever is asked waits for a broker that is away, until the client's timeouts. A query that
is only being started is told at once that its address leads nowhere.
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
    """A cluster, and the loop in a thread that talks to it."""

    def __init__(self, options: ClientOptions, *, is_patient: bool = False) -> None:
        self.options = options
        self._bridge = EventLoopThread("ottla spark")
        try:
            self.cluster = self._bridge.run(_connected(options, is_patient))
        except BaseException:
            self._bridge.close()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return what it returns."""
        return self._bridge.run(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine, and return the future of what it returns."""
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
    """Return the link of this process to the cluster of these options; connect if there is none.

    `is_patient` is for what runs in the middle of a query: it waits for a broker that is away.
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
