import asyncio
import os
import threading

import pytest

from ottla.client.errors import ClientClosed, TimedOut
from ottla.client.event_loop_thread import EventLoopThread


@pytest.fixture
def loop_thread():
    made = EventLoopThread("test")
    yield made
    made.close()


async def give(value):
    return value


def test_a_coroutine_runs_in_the_background_and_its_result_returns(loop_thread):
    async def where():
        return threading.current_thread().name

    assert loop_thread.run(where()) == "test"


def test_errors_are_raised_unchanged(loop_thread):
    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop_thread.run(fail())


def test_what_takes_too_long_is_cancelled(loop_thread):
    cancelled = threading.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimedOut, match=r"not done within 0\.01 s"):
        loop_thread.run(wait(), timeout_s=0.01)
    assert cancelled.wait(5)


def test_a_timeout_of_the_work_itself_is_not_ours(loop_thread):
    async def fail():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        loop_thread.run(fail(), timeout_s=5)


def test_many_threads_may_use_it_at_once(loop_thread):
    results = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(loop_thread.run(give(n)))) for n in range(20)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(5)
    assert sorted(results) == list(range(20))


def test_objects_can_be_made_where_they_belong(loop_thread):
    assert loop_thread.make(asyncio.get_running_loop) is loop_thread._loop


def test_waiting_for_oneself_is_refused(loop_thread):
    async def nested():
        loop_thread.run(give(1))

    with pytest.raises(RuntimeError, match="it would wait forever"):
        loop_thread.run(nested())


def test_after_it_is_closed_it_says_so(loop_thread):
    loop_thread.close()
    loop_thread.close()
    with pytest.raises(ClientClosed):
        loop_thread.run(give(1))


def test_closing_cancels_what_still_runs(loop_thread):
    ended = threading.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    loop_thread.post(lambda: asyncio.ensure_future(wait()))
    loop_thread.run(give(1))
    loop_thread.close()
    assert ended.is_set()


def test_after_a_fork_a_new_client_is_asked_for(loop_thread, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="make a new one in each process"):
        loop_thread.run(give(1))
