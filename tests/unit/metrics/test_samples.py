import asyncio

from ottla.metrics import samples
from ottla.metrics.samples import in_slices


async def test_gathering_gives_everybody_a_turn_after_some_milliseconds(monkeypatch):
    now = 0.0

    def tick() -> float:
        return now

    def steps():
        nonlocal now
        for _ in range(1_000):
            now += 0.0005
            yield

    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(samples, "perf_counter", tick)
    counting = asyncio.create_task(count_turns())
    await in_slices(steps())
    counting.cancel()
    # 500 ms of work: a turn at least every 5 ms and one look (4 steps of half a millisecond).
    assert turns >= 500 / (5 + 4 * 0.5 + 0.5)
