import asyncio
import os
import threading

import pytest

from ottla.client.errors import ClientClosed, TimedOut
from ottla.client.event_loop_thread import EventLoopThread


@pytest.fixture
def bridge():
    made = EventLoopThread("test")
    yield made
    made.close()


async def give(value):
    return value


def test_a_coroutine_runs_in_the_background_and_its_result_returns(bridge):
    async def where():
        return threading.current_thread().name

    assert bridge.run(where()) == "test"


def test_errors_are_raised_unchanged(bridge):
    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bridge.run(fail())


def test_what_takes_too_long_is_cancelled(bridge):
    cancelled = threading.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimedOut, match=r"not done within 0\.01 s"):
        bridge.run(wait(), timeout_s=0.01)
    assert cancelled.wait(5)


def test_a_timeout_of_the_work_itself_is_not_ours(bridge):
    async def fail():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        bridge.run(fail(), timeout_s=5)


def test_many_threads_may_use_it_at_once(bridge):
    results = []
    threads = [threading.Thread(target=lambda n=n: results.append(bridge.run(give(n)))) for n in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(5)
    assert sorted(results) == list(range(20))


def test_objects_can_be_made_where_they_belong(bridge):
    assert bridge.make(asyncio.get_running_loop) is bridge._loop


def test_waiting_for_oneself_is_refused(bridge):
    async def nested():
        bridge.run(give(1))

    with pytest.raises(RuntimeError, match="it would wait forever"):
        bridge.run(nested())


def test_after_it_is_closed_it_says_so(bridge):
    bridge.close()
    bridge.close()
    with pytest.raises(ClientClosed):
        bridge.run(give(1))


def test_closing_cancels_what_still_runs(bridge):
    ended = threading.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    bridge.post(lambda: asyncio.ensure_future(wait()))
    bridge.run(give(1))
    bridge.close()
    assert ended.is_set()


def test_after_a_fork_a_new_client_is_asked_for(bridge, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="make a new one in each process"):
        bridge.run(give(1))
