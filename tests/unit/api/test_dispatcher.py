"""The dispatcher: which broker a request comes from, and which handlers are imported before it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.api.dispatcher import Dispatcher
from ottla.common.clock import ManualClock
from ottla.common.config.broker import BrokerConfig
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import RequestHeader, encode_request_header


@pytest.mark.parametrize(
    "client_id",
    [
        "broker-2",
        "broker-1",
        "broker-9",
        "broker--1",
        "broker-",
        "broker-2x",
        "Broker-2",
        "rdkafka",
        "",
        None,
    ],
)
def test_another_broker_is_known_by_its_client_id(client_id: str | None) -> None:
    image = SimpleNamespace(brokers={1: "this one", 2: "another"})
    services: Any = SimpleNamespace(
        node_id=1,
        clock=ManualClock(),
        config=BrokerConfig({}),
        cluster=SimpleNamespace(image=image),
        is_broker=lambda _: True,
    )
    header = encode_request_header(RequestHeader(ApiKey.FETCH, 17, 1, cast(Any, client_id)))
    assert Dispatcher(services).is_from_broker(cast(Any, None), memoryview(header)) is (
        client_id == "broker-2"
    )


LOADING = """
import asyncio, sys
from types import SimpleNamespace
from ottla.api.dispatcher import Dispatcher
from ottla.testing.simulation.loop import SimLoop

def loaded():
    print(*(name for name in sys.modules if name.startswith("ottla.api.")))

async def start():
    config = SimpleNamespace(ottla_slow_request_ms=1)
    services = SimpleNamespace(clock=None, config=config, handle_forwarded=None)
    loading = asyncio.create_task(Dispatcher(services).load_handlers())
    await asyncio.sleep(1)
    loaded()
    await loading
    loaded()

SimLoop(0).run_until_complete(start())
"""


def test_handlers_of_tools_are_imported_some_time_after_the_start() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=True)
    at_first, later = (set(line.split()) for line in done.stdout.splitlines())
    for_tools = {"ottla.api.create_topics", "ottla.api.describe_acls", "ottla.api.elect_leaders"}
    assert {"ottla.api.produce", "ottla.api.fetch", "ottla.api.sync_group", "ottla.api.end_txn"} <= at_first
    assert not for_tools & at_first
    assert for_tools <= later
