"""Both coordinators with a topic to write to, behind the dispatcher: requests and answers are real bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.coordinator.coordinator_bench import CoordinatorBench


@pytest.fixture
async def bench() -> AsyncIterator[CoordinatorBench]:
    made = CoordinatorBench(transaction_two_phase_commit_enable="true")
    await made.start()
    await made.create_topics("orders")
    await made.transactions.find("t")
    yield made
    await made.stop()
