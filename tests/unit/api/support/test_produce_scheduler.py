"""Produce requests that take more than one turn of the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.api.support.produce_scheduler import ProduceScheduler, Steps


@pytest.fixture
def done() -> list[str]:
    return []


async def test_steps_that_need_nothing_are_done_at_once(done: list[str]) -> None:
    def steps() -> Steps:
        done.append("all")
        return
        yield

    assert ProduceScheduler().run("client", steps()) is None
    assert done == ["all"]


async def test_a_turn_that_is_over_lets_others_have_theirs(done: list[str]) -> None:
    def steps() -> Steps:
        done.append("first")
        yield None
        done.append("last")

    rest = ProduceScheduler().run("client", steps())
    assert rest is not None
    asyncio.get_running_loop().call_soon(done.append, "other")
    await rest
    assert done == ["first", "other", "last"]


async def test_what_is_wanted_is_done_in_a_thread_and_returns(done: list[str]) -> None:
    def fail() -> None:
        raise ValueError("no")

    def steps() -> Steps:
        done.append((yield lambda: threading.current_thread().name))
        try:
            yield fail
        except ValueError as error:
            done.append(str(error))

    rest = ProduceScheduler().run("client", steps())
    assert rest is not None
    await rest
    assert done == ["ottla-produce_0", "no"]


async def test_a_request_waits_for_those_before_it_on_its_connection_and_for_no_other(
    done: list[str],
) -> None:
    turns = ProduceScheduler()
    go = threading.Event()

    def slow() -> Steps:
        yield go.wait
        done.append("slow")

    def quick(name: str) -> Steps:
        done.append(name)
        return
        yield

    first = turns.run("client", slow())
    second = turns.run("client", quick("second"))
    third = turns.run("client", quick("third"))
    assert first is not None
    assert second is not None
    assert third is not None
    assert turns.run("another", quick("another's")) is None
    go.set()
    await asyncio.gather(first, second, third)
    assert done == ["another's", "slow", "second", "third"]
    assert turns.run("client", quick("afterwards")) is None


async def test_a_request_is_not_blocked_by_one_that_was_cancelled(done: list[str]) -> None:
    turns = ProduceScheduler()
    go = threading.Event()

    def slow() -> Steps:
        yield go.wait

    def quick() -> Steps:
        done.append("quick")
        return
        yield

    first = turns.run("client", slow())
    second = turns.run("client", quick())
    assert first is not None
    assert second is not None
    first.cancel()
    go.set()
    await second
    assert done == ["quick"]
