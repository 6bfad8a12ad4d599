"""Our own clients in both their faces, driven the same way, so that one test is for both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from inspect import isawaitable
from typing import Any

import pytest

from ottla.client import AsyncProducer, Producer
from ottla.client.event_loop_thread import EventLoopThread

MakeProducer = Callable[..., Any]


class Driven:
    """An asyncio client that is called as if it were a synchronous one."""

    def __init__(self, client: Any, loop_thread: EventLoopThread, owns_loop_thread: bool = False) -> None:
        self._client = client
        self._loop_thread = loop_thread
        self._owns_loop_thread = owns_loop_thread

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the client, and what it runs on if nobody else uses that."""

        async def close() -> None:
            await self._client.close(*args, **kwargs)

        try:
            self._loop_thread.run(close())
        finally:
            if self._owns_loop_thread:
                self.end()

    def end(self) -> None:
        """End the thread that the client runs in."""
        self._loop_thread.close()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method):
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            async def run() -> Any:
                result = method(*args, **kwargs)
                return await result if isawaitable(result) else result

            return self._loop_thread.run(run())

        return call


def open_face(face: type[Any], *args: Any, **options: Any) -> Any:
    """Return a client of either face, started; `close` also ends the thread that an asyncio one runs in."""
    if not face.__name__.startswith("Async"):
        return face(*args, **options)
    loop_thread = EventLoopThread("asyncio face")
    try:
        client = face(*args, **options)
        loop_thread.run(client.start())
    except BaseException:
        loop_thread.close()
        raise
    return Driven(client, loop_thread, owns_loop_thread=True)


def abandon(client: Any) -> None:
    """Disconnect a producer as an interrupt does: requests in flight are not awaited."""
    if isinstance(client, Driven):
        client.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)
        client.end()
    else:
        client.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)


@pytest.fixture(params=["sync", "async"])
def make_producer(request: pytest.FixtureRequest) -> Iterator[MakeProducer]:
    """Make started producers, of each face in turn; those that are left open are closed, come what may."""
    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> Any:
            if request.param == "sync":
                producer = Producer(*args, **options)
                stack.callback(_close, producer)
                return producer
            loop_thread = EventLoopThread("asyncio face")
            stack.callback(loop_thread.close)
            driven = Driven(AsyncProducer(*args, **options), loop_thread)
            driven.start()
            stack.callback(_close, driven)
            return driven

        yield make


def _close(producer: Any) -> None:
    try:
        producer.close(timeout_s=5)
    except Exception:
        pass
