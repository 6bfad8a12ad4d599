"""How long a request waits, by who is behind it; in simulated time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.api.support.brief_wait import MAX_HOLD_S, MAX_WAIT_S, BriefWait
from ottla.protocol.errors import CoordinatorNotAvailable, InvalidRequest
from ottla.testing.simulation.loop import SimLoop

LATER_S = 1.0


@pytest.mark.parametrize(
    ("held_up_after_s", "answered_after_s"),
    [(None, MAX_WAIT_S), (0.0, MAX_HOLD_S), (LATER_S, LATER_S + MAX_HOLD_S), (MAX_WAIT_S, MAX_WAIT_S)],
)
def test_a_request_waits_while_no_other_is_behind_it(
    held_up_after_s: float | None, answered_after_s: float
) -> None:
    loop = SimLoop(1)
    connection: Any = SimpleNamespace(has_queued_request=False)
    was_cancelled = []

    async def for_ever() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            was_cancelled.append(True)
            raise

    async def main() -> None:
        if held_up_after_s is not None:
            loop.call_later(held_up_after_s, setattr, connection, "has_queued_request", True)
        with pytest.raises(CoordinatorNotAvailable):
            await BriefWait(connection).until_done(for_ever(), CoordinatorNotAvailable("away"))
        assert answered_after_s <= loop.now <= answered_after_s + 0.05
        await asyncio.sleep(0)
        assert was_cancelled

    loop.run(main())


def test_what_is_done_in_time_is_the_answer() -> None:
    loop = SimLoop(1)
    held_up: Any = SimpleNamespace(has_queued_request=True)

    async def work() -> int:
        await asyncio.sleep(MAX_HOLD_S / 2)
        return 7

    async def fail() -> int:
        raise InvalidRequest("no")

    async def main() -> None:
        assert await BriefWait(held_up).until_done(work(), CoordinatorNotAvailable("away")) == 7
        with pytest.raises(InvalidRequest):
            await BriefWait(held_up).until_done(fail(), CoordinatorNotAvailable("away"))

    loop.run(main())
