"""Taking records in the caller's own thread, without the loop."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from ottla.client.consumer.waiting import WaitingThreads, take_here
from ottla.common.clock import SystemClock

LONG_S = 30.0


def core(*, is_held: bool = False, group: object = None) -> Any:
    """Return as much of a consumer as `take_here` looks at."""
    return SimpleNamespace(
        group=group,
        collector=SimpleNamespace(is_held=is_held),
        waiting_threads=WaitingThreads(),
        clock=SystemClock(),
    )


def test_what_is_there_is_taken_without_waiting() -> None:
    assert take_here(core(), lambda: ["record"], LONG_S) == (["record"], LONG_S)
    assert take_here(core(), lambda: ["record"], 0)[0] == ["record"]
    assert take_here(core(), lambda: ["record"], None) == (["record"], None)


def test_what_comes_while_a_thread_looks_is_not_missed() -> None:
    consumer = core()
    found: list[str] = []

    def take() -> list[str]:
        before = list(found)
        found.append("record")  # the loop has it now, behind our back
        consumer.waiting_threads.wake()
        return before

    assert take_here(consumer, take, LONG_S)[0] == ["record"]


def test_a_thread_that_waits_is_woken_by_what_comes() -> None:
    consumer = core()
    found: list[str] = []
    looked = threading.Event()
    taken: list[Any] = []

    def take() -> list[str]:
        looked.set()
        return list(found)

    thread = threading.Thread(target=lambda: taken.append(take_here(consumer, take, LONG_S)[0]))
    thread.start()
    assert looked.wait(LONG_S)
    found.append("record")
    consumer.waiting_threads.wake()
    thread.join(LONG_S)
    assert taken == [["record"]]


def test_all_threads_that_wait_are_woken_each_once() -> None:
    threads = WaitingThreads()
    locks = [threads.add() for _ in range(3)]
    threads.remove(locks[0])
    threads.wake()
    threads.wake()
    assert [each.locked() for each in locks] == [True, False, False]
    threads.remove(locks[1])  # as who was woken does


def test_nothing_is_returned_when_the_time_is_over() -> None:
    assert take_here(core(), list, 0.001) == ([], 0.0)


def test_a_call_without_a_wait_yields_to_the_event_loop() -> None:
    assert take_here(core(), list, 0) == (None, 0)


def test_whatever_else_is_to_be_done_is_left_to_the_loop() -> None:
    assert take_here(core(is_held=True), lambda: ["record"], LONG_S) == (None, LONG_S)
    assert take_here(core(group=object()), lambda: ["record"], LONG_S) == (None, LONG_S)


def test_a_thread_that_waits_goes_to_the_loop_when_there_is_more_to_do() -> None:
    consumer = core()

    def take() -> list[str]:
        consumer.collector.is_held = True
        consumer.waiting_threads.wake()
        return []

    found, left_s = take_here(consumer, take, LONG_S)
    assert found is None
    assert left_s is not None
    assert 0 < left_s <= LONG_S
