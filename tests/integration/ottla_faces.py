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

    def __init__(self, client: Any, bridge: EventLoopThread, owns_bridge: bool = False) -> None:
        self._client = client
        self._bridge = bridge
        self._owns_bridge = owns_bridge

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the client, and what it runs on if nobody else uses that."""

        async def close() -> None:
            await self._client.close(*args, **kwargs)

        try:
            self._bridge.run(close())
        finally:
            if self._owns_bridge:
                self.end()

    def end(self) -> None:
        """End the thread that the client runs in."""
        self._bridge.close()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method):
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            async def run() -> Any:
                result = method(*args, **kwargs)
                return await result if isawaitable(result) else result

            return self._bridge.run(run())

        return call


def open_face(face: type[Any], *args: Any, **options: Any) -> Any:
    """Return a client of either face, started; `close` also ends the thread that an asyncio one runs in."""
    if not face.__name__.startswith("Async"):
        return face(*args, **options)
    bridge = EventLoopThread("asyncio face")
    try:
        client = face(*args, **options)
        bridge.run(client.start())
    except BaseException:
        bridge.close()
        raise
    return Driven(client, bridge, owns_bridge=True)


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
            bridge = EventLoopThread("asyncio face")
            stack.callback(bridge.close)
            driven = Driven(AsyncProducer(*args, **options), bridge)
            driven.start()
            stack.callback(_close, driven)
            return driven

        yield make


def _close(producer: Any) -> None:
    try:
        producer.close(timeout_s=5)
    except Exception:
        pass
