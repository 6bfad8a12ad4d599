"""Virtual time, and processes that are paused and killed between two callbacks."""

from __future__ import annotations

import asyncio

import pytest

from ottla.common.ids import new_uuid
from ottla.testing.simulation.loop import Deadlock, SimLoop, SimProcess


def test_five_minutes_pass_at_once() -> None:
    loop = SimLoop(1)
    loop.run(asyncio.sleep(300))
    assert loop.now == pytest.approx(300)
    loop.close()


def test_a_loop_in_which_nothing_can_happen_says_so() -> None:
    loop = SimLoop(1)
    with pytest.raises(Deadlock):
        loop.run(asyncio.Event().wait())
    loop.close()


def test_the_seed_decides_chance_and_the_time_that_threads_take() -> None:
    async def main() -> tuple[object, ...]:
        await asyncio.to_thread(lambda: None)
        return new_uuid(), asyncio.get_running_loop().time()

    def outcome(seed: int) -> tuple[object, ...]:
        loop = SimLoop(seed)
        try:
            return loop.run(main())
        finally:
            loop.close()

    assert outcome(1) == outcome(1)
    assert outcome(1) != outcome(2)


def test_what_a_thread_raises_is_raised_where_it_is_awaited() -> None:
    def fail() -> None:
        raise ValueError("no")

    loop = SimLoop(1)
    with pytest.raises(ValueError, match="no"):
        loop.run(asyncio.to_thread(fail))
    loop.close()


def test_a_paused_process_stands_still_and_continues_where_it_was() -> None:
    loop = SimLoop(1)
    ticks: list[float] = []

    async def tick() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            ticks.append(loop.now)

    async def main() -> None:
        process = SimProcess(loop, "host")
        done = process.spawn(tick())
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(10)
        assert ticks == [1]
        process.resume()
        await done

    loop.run(main())
    loop.close()
    assert ticks == [1, 11.5, 12.5]


def test_a_starved_process_takes_its_time_for_every_callback_and_keeps_their_order() -> None:
    loop = SimLoop(1)
    ran: list[tuple[str, float]] = []
    process = SimProcess(loop, "slow")

    async def count(name: str) -> None:
        for _ in range(2):
            ran.append((name, loop.now))
            await asyncio.sleep(0)

    async def main() -> None:
        process.starve(0.5)
        tasks = [process.spawn(count(name)) for name in "ab"]
        await asyncio.wait(tasks)
        process.starve(0)
        await asyncio.sleep(1)
        start = loop.now
        await process.spawn(count("c"))
        assert loop.now == start

    loop.run(main())
    assert [(name, now) for name, now in ran if name != "c"] == [("a", 0), ("b", 0.5), ("a", 1), ("b", 1.5)]
    loop.close()


def test_a_killed_process_never_runs_again_not_even_to_clean_up() -> None:
    loop = SimLoop(1)
    did: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            did.append("worked")
        finally:
            did.append("cleaned up")

    async def main() -> list[str]:
        process = SimProcess(loop, "host")
        work_done = process.spawn(work())
        await asyncio.sleep(0.5)
        process.kill()
        await asyncio.sleep(10)
        before = list(did)
        process.bury()
        for task in process.tasks:
            task.cancel()
        await asyncio.wait([work_done])
        return before

    assert loop.run(main()) == []
    loop.close()


def test_tasks_of_a_process_belong_to_it_and_others_run_on() -> None:
    loop = SimLoop(1)
    ticks: list[str] = []

    async def child(name: str) -> None:
        await asyncio.sleep(1)
        ticks.append(name)

    async def parent(name: str) -> None:
        task = asyncio.create_task(child(name))
        await task

    async def main() -> None:
        one, other = SimProcess(loop, "one"), SimProcess(loop, "other")
        doomed = one.spawn(parent("one"))
        await asyncio.sleep(0.1)
        one.kill()
        await other.spawn(parent("other"))
        one.bury()
        doomed.cancel()
        await asyncio.wait([doomed])

    loop.run(main())
    loop.close()
    assert ticks == ["other"]


def test_an_unhandled_exception_is_kept() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        def fail() -> None:
            raise ValueError("oops")

        loop.call_soon(fail)
        await asyncio.sleep(1)

    loop.run(main())
    loop.close()
    assert "oops" in loop.problems[0]
