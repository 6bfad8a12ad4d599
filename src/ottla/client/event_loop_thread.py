"""Runs the asyncio clients for the synchronous ones: an event loop in a background thread.

Each synchronous client has an `EventLoopThread`. Its methods pass coroutines to `run` and wait for the
result, so any number of threads may share the client. An interrupt (Ctrl-C) in a waiting thread cancels the
coroutine. The loop's own thread must not wait for itself: callbacks that call their client get an error.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import uvloop

from ottla.client.errors import ClientClosed, TimedOut

P = ParamSpec("P")
T = TypeVar("T")

WAITS_FOR_ITSELF = "a callback cannot wait for its own client: it would wait forever"

_own_threads: set[int] = set()
"""The threads that run event loops of clients."""
_open_threads: weakref.WeakSet[EventLoopThread] = weakref.WeakSet()


def check_may_wait() -> None:
    """Raise if this is a client's own thread, which would wait for itself."""
    if threading.get_ident() in _own_threads:
        raise RuntimeError(WAITS_FOR_ITSELF)


class EventLoopThread:
    """An event loop in a background thread."""

    def __init__(self, name: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._process = os.getpid()
        self._is_closed = False
        self._closing = threading.Lock()
        self.on_fork: Callable[[Exception], object] | None = None
        """Set the error that calls raise in the child of a fork, where no loop runs."""
        _open_threads.add(self)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and return its result; raise TimedOut if it takes longer."""
        with self._closing:  # coroutines submitted before the close are started, then cancelled
            self._check(work)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except concurrent.futures.CancelledError:
            if self._is_closed:
                raise ClientClosed("the client was closed in the meantime") from None
            raise
        except concurrent.futures.TimeoutError:
            if future.done() and not future.cancelled():
                raise  # raised by the coroutine itself
            future.cancel()
            raise TimedOut(f"not done within {timeout_s:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the loop, and return the future of its result."""
        with self._closing:
            self._check(work)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def post(self, call: Callable[[], object]) -> None:
        """Call a function on the loop soon, without waiting; ignored once the loop is closed."""
        with self._closing:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(call)

    def make(self, factory: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `factory` on the loop and return its result: for objects that belong to a loop."""

        async def call() -> T:
            return factory(*args, **kwargs)

        return self.run(call())

    @property
    def is_here(self) -> bool:
        """Whether the caller is on the loop's own thread."""
        return threading.current_thread() is self._thread

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is the child of a fork: the loop runs in the parent."""
        return os.getpid() != self._process

    def close(self) -> None:
        """Stop the loop, cancelling what still runs on it, and end the thread."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        if not self.is_here:
            self._thread.join()

    def check(self) -> None:
        """Raise if nothing can be waited for here."""
        problem = self._problem()
        if problem is not None:
            raise problem

    def _check(self, work: Coroutine[Any, Any, Any]) -> None:
        problem = self._problem()
        if problem is not None:
            work.close()
            raise problem

    def _problem(self) -> Exception | None:
        reason: Exception | None = None
        if self._is_closed:
            reason = ClientClosed("the client is closed")
        elif self.is_here:
            reason = RuntimeError(WAITS_FOR_ITSELF)
        elif self.is_elsewhere:
            reason = _made_before_a_fork()
        return reason

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        _own_threads.add(threading.get_ident())
        try:
            self._loop.run_forever()
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
            _own_threads.discard(threading.get_ident())


def _made_before_a_fork() -> Exception:
    return RuntimeError("this client was made before a fork; make a new one in each process")


def _forked() -> None:
    """Invalidate the clients of the parent process after a fork: the child has no loop thread."""
    for loop_thread in list(_open_threads):
        if loop_thread.on_fork is not None:
            loop_thread.on_fork(_made_before_a_fork())


os.register_at_fork(after_in_child=_forked)
