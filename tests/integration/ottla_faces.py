"""Our own producer in both its faces, driven the same way, so that one test is for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from inspect import isawaitable
from typing import Any

import pytest

from ottla.client import AsyncProducer, Producer
from ottla.client.bridge import Bridge

MakeProducer = Callable[..., Any]


class Driven:
    """An asyncio client that is called as if it were a synchronous one."""

    def __init__(self, client: Any, bridge: Bridge) -> None:
        self._client = client
        self._bridge = bridge

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


@pytest.fixture(params=["sync", "async"])
def make_producer(request: pytest.FixtureRequest) -> Iterator[MakeProducer]:
    """Make started producers, of each face in turn; those that are left open are closed, come what may."""
    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> Any:
            if request.param == "sync":
                producer = Producer(*args, **options)
                stack.callback(_close, producer)
                return producer
            bridge = Bridge("asyncio face")
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
