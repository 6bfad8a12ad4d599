"""A running coordinator for every test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.coordinator.coordinator_bench import CoordinatorBench


@pytest.fixture
async def bench() -> AsyncIterator[CoordinatorBench]:
    made = CoordinatorBench()
    await made.start()
    yield made
    await made.stop()
