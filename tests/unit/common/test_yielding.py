import asyncio
from types import SimpleNamespace

from ottla.common import yielding
from ottla.common.yielding import run_in_slices


async def test_long_work_yields_to_the_event_loop_every_few_milliseconds(monkeypatch):
    now = 0.0

    def tick() -> float:
        return now

    def steps():
        nonlocal now
        for _ in range(1_000):
            now += 0.0005
            yield

    yields = 0

    async def count_yields():
        nonlocal yields
        while True:
            yields += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(yielding, "time", SimpleNamespace(perf_counter=tick))
    counting = asyncio.create_task(count_yields())
    await run_in_slices(steps())
    counting.cancel()
    # 500 ms of work: a yield at least every 5 ms and one check (4 steps of half a millisecond).
    assert yields >= 500 / (5 + 4 * 0.5 + 0.5)
