"""Producer ids come from the controller, a block at a time."""

from __future__ import annotations

import asyncio

import pytest

from ottla.api.support.context import ProducerIds
from ottla.protocol.errors import CoordinatorLoadInProgress, NotController


async def test_a_block_is_used_up_before_another_is_asked_for() -> None:
    blocks = [range(2), range(1000, 1002)]

    async def allocate() -> range:
        return blocks.pop(0)

    ids = ProducerIds(allocate)
    assert [await ids.next() for _ in range(4)] == [0, 1, 1000, 1001]


async def test_without_a_controller_clients_must_try_again() -> None:
    """Of NOT_CONTROLLER no producer knows what to do."""
    answers: list[range | NotController] = [NotController("none at the moment"), range(7, 8)]

    async def allocate() -> range:
        answer = answers.pop(0)
        if isinstance(answer, NotController):
            raise answer
        return answer

    ids = ProducerIds(allocate)
    with pytest.raises(CoordinatorLoadInProgress):
        await ids.next()
    assert await ids.next() == 7


async def test_a_cancelled_wait_does_not_stop_the_others() -> None:
    run_held = asyncio.Event()
    asked = []

    async def allocate() -> range:
        asked.append(True)
        await run_held.wait()
        return range(5, 9)

    ids = ProducerIds(allocate)
    with pytest.raises(CoordinatorLoadInProgress):
        await ids.try_next()
    waiting = asyncio.create_task(ids.next())
    run_held.set()
    assert await waiting == 5
    assert await ids.try_next() == 6
    assert len(asked) == 1
    ids.stop()
