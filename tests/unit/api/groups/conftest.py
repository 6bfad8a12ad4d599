"""A coordinator with a topic to read, behind the dispatcher: requests and answers are real bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.coordinator.coordinator_bench import CoordinatorBench


@pytest.fixture
async def bench() -> AsyncIterator[CoordinatorBench]:
    made = CoordinatorBench()
    await made.start()
    await made.create_topics("orders")
    await made.groups.find("g")
    yield made
    await made.stop()
