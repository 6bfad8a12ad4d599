"""A broker in memory for the client's tests: real frames, no sockets.

`FakeNetwork` replaces `create_connection` of every event loop. Whoever connects to a registered
`FakeBroker` gets a transport that hands frames to it; everybody else is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.fake_network import FakeNetwork

from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.common.clock import Clock


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> FakeNetwork:
    fake = FakeNetwork()

    async def create_connection(loop: Any, factory: Any, host: str, port: int, ssl: None = None) -> Any:
        return await fake.connect(factory, host, port)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", create_connection)
    quick = ClientOptions(
        default_api_timeout_ms=30_000,
        retry_backoff_ms=1,
        retry_backoff_max_ms=3,
        reconnect_backoff_ms=1,
        reconnect_backoff_max_ms=3,
    )
    monkeypatch.setattr("ottla.client.cluster.DEFAULTS", quick)
    monkeypatch.setattr("ottla.client.cluster.CREATION_TIMEOUT_MS", 200)
    return fake


@pytest.fixture
def peer(network: FakeNetwork) -> FakeBroker:
    return network.start(FakeBroker())


@pytest.fixture
async def cluster(peer: FakeBroker) -> AsyncIterator[Cluster]:
    async with Cluster([peer.address]) as cluster:
        yield cluster


@pytest.fixture
def produce(cluster: Cluster) -> Callable[..., AsyncProducer]:
    """Make producers on the fake broker; impatient ones, unless told otherwise."""

    def make(clock: Clock | None = None, **changes: Any) -> AsyncProducer:
        options = ProducerOptions(**{"delivery_timeout_ms": 500, **changes})
        return AsyncProducer.on(cluster, options, clock)

    return make
