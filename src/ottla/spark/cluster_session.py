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

MAX_SESSIONS = 16


class ClusterSession:
    """A cluster, and the event loop thread of its client."""

    def __init__(self, options: ClientOptions, *, waits_for_brokers: bool = False) -> None:
        self.options = options
        self._loop_thread = EventLoopThread("ottla spark")
        try:
            self.cluster = self._loop_thread.run(_connected(options, waits_for_brokers))
        except BaseException:
            self._loop_thread.close()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop and return its result."""
        return self._loop_thread.run(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, and return its future."""
        return self._loop_thread.begin(work)

    def close(self) -> None:
        """Disconnect."""
        try:
            self._loop_thread.run(self.cluster.close())
        finally:
            self._loop_thread.close()


_sessions: OrderedDict[tuple[int, str], ClusterSession] = OrderedDict()
_lock = Lock()


def cluster_session(options: ClientOptions, *, waits_for_brokers: bool = False) -> ClusterSession:
    """Return this process's session for these options; connect if there is none.

    `waits_for_brokers` is for calls in the middle of a query: it waits for an unavailable broker.
    """
    key = (os.getpid(), f"{type(options).__name__}{_option_values(options)}")
    with _lock:
        session = _sessions.get(key)
        if session is None:
            session = _sessions[key] = ClusterSession(options, waits_for_brokers=waits_for_brokers)
        _sessions.move_to_end(key)
        while len(_sessions) > MAX_SESSIONS:
            (pid, _), oldest = _sessions.popitem(last=False)
            if pid == os.getpid():
                oldest.close()
        return session


def _option_values(options: ClientOptions) -> Mapping[str, Any]:
    return {name: getattr(options, name) for name in type(options).declared()}


async def _connected(options: ClientOptions, waits_for_brokers: bool) -> Cluster:
    cluster = Cluster(options=options)
    try:
        await cluster.retrying(lambda: cluster.refresh([]), wait_for_brokers=waits_for_brokers)
    except BaseException:
        await cluster.close()
        raise
    cluster.waits_for_brokers = True
    return cluster
