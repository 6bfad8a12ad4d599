"""The budget: which connections may take, which wait, and in which order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.network.budget import Budget, LargeFrame


async def _turn() -> None:
    """Let what is scheduled happen."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_budget_is_full_once_its_limit_is_reached_and_overdrawn_by_one_grant_at_most() -> None:
    budget = Budget(10)
    budget.take(9)
    assert not budget.is_full
    budget.take(100)
    assert budget.is_full
    budget.release(99)
    assert budget.is_full
    budget.release(1)
    assert not budget.is_full


async def test_a_negative_limit_is_none() -> None:
    budget = Budget(-1)
    budget.take(1 << 50)
    assert not budget.is_full


async def test_waiters_are_served_in_order_and_newcomers_do_not_overtake() -> None:
    budget = Budget(2)
    budget.take(2)
    order: list[int] = []

    def waiter(number: int) -> Callable[[], None]:
        def take() -> None:
            assert not budget.is_full
            order.append(number)
            budget.take(1)

        return take

    for number in range(5):
        budget.wait(waiter(number))
    budget.release(1)
    assert budget.is_full, "there is room, and it belongs to the first in line"
    await _turn()
    assert order == [0]
    budget.release(2)
    await _turn()
    assert order == [0, 1, 2]
    assert budget.is_full
    assert budget.waiting == 2


async def test_a_waiter_that_fails_does_not_stop_the_line(caplog: pytest.LogCaptureFixture) -> None:
    budget = Budget(1)
    budget.take(1)
    served: list[bool] = []

    def fail() -> None:
        raise RuntimeError("a bug")

    budget.wait(fail)
    budget.wait(lambda: served.append(True))
    budget.release(1)
    await _turn()
    assert served == [True]
    assert not budget.is_full
    assert "a bug" in caplog.text


async def test_the_line_moves_on_when_the_first_in_it_leaves() -> None:
    budget = Budget(1)
    budget.take(1)

    def leaver() -> None:
        raise AssertionError("it has left")

    budget.wait(leaver)
    budget.cancel_wait(leaver)
    budget.cancel_wait(leaver)
    budget.release(1)
    await _turn()
    assert not budget.is_full


async def test_the_place_of_one_who_leaves_goes_to_the_next_in_line_not_to_a_newcomer() -> None:
    budget = Budget(1)
    budget.take(1)
    served: list[bool] = []

    def leaver() -> None:
        raise AssertionError("it has left")

    budget.wait(leaver)
    budget.wait(lambda: served.append(True))
    budget.release(1)
    budget.cancel_wait(leaver)
    assert budget.is_full
    await _turn()
    assert served == [True]


async def test_a_frame_may_die_in_another_thread() -> None:
    budget = Budget(100)
    views = [memoryview(LargeFrame(budget, 60)), memoryview(LargeFrame(budget, 60))]
    served = asyncio.Event()
    budget.wait(served.set)
    assert budget.used == 120
    thread = threading.Thread(target=views.clear)
    thread.start()
    async with asyncio.timeout(5):
        await served.wait()
    thread.join()
    await _turn()
    assert budget.used == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 7)), max_size=60))
def test_no_request_waits_while_there_is_room(steps: list[tuple[int, int]]) -> None:
    """Whatever is taken and given back: the line is empty or the budget used up, and nobody is lost."""

    async def run() -> None:
        budget = Budget(10)
        held: list[int] = []
        arrived, served = 0, []

        def ask(amount: int, number: int) -> None:
            def take() -> None:
                if budget.is_full:
                    budget.wait(take)
                    return
                budget.take(amount)
                held.append(amount)
                served.append(number)

            take()

        for action, amount in steps:
            if action < 2:
                ask(amount, arrived)
                arrived += 1
            elif action == 2 and held:
                budget.release(held.pop(0))
            else:
                await _turn()
            assert budget.used == sum(held)
            assert budget.used < budget.limit + 7
        await _turn()
        assert served == sorted(served), "first come, first served"
        assert budget.waiting == 0 or budget.used >= budget.limit
        while held:
            budget.release(held.pop())
            await _turn()
        assert sorted(served) == list(range(arrived))
        assert not budget.is_full

    asyncio.run(run())
