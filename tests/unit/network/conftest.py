"""Every asyncio test here runs on uvloop and on the standard loop, with real sockets on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop
from tests.unit.network.harness import Harness


def pytest_asyncio_loop_factories(
    config: Any, item: Any
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture
async def net() -> AsyncIterator[Harness]:
    harness = Harness()
    yield harness
    await harness.close()
