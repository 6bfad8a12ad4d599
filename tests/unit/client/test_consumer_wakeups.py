"""How a call for records waits: woken by news, or by its deadline."""

import asyncio

from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.fetching.partition_state import PendingLookup
from ottla.client.consumer.waiting import WakeupEvent
from ottla.common.ids import TopicPartition


async def test_who_waits_is_woken_and_the_news_are_taken():
    loop = asyncio.get_running_loop()
    news = WakeupEvent(loop)
    loop.call_soon(news.set)
    assert await news.wait(None)
    assert not await news.wait(loop.time() + 0.005)


async def test_a_wakeup_without_a_waiter_is_kept_for_the_next():
    news = WakeupEvent(asyncio.get_running_loop())
    news.set()
    assert await news.wait(0.0)


async def test_each_waits_until_its_own_deadline_though_there_is_one_alarm():
    loop = asyncio.get_running_loop()
    news = WakeupEvent(loop)
    ended = []
    both_ended = asyncio.Condition()

    async def wait(name, deadline):
        ended.append((name, await news.wait(deadline)))
        async with both_ended:
            both_ended.notify_all()

    now = loop.time()
    waits = (wait("late", now + 0.03), wait("ever", None), wait("soon", now + 0.01), wait("later", now + 10))
    async with asyncio.TaskGroup() as tasks:
        for each in waits:
            tasks.create_task(each)
        async with asyncio.timeout(5), both_ended:
            await both_ended.wait_for(lambda: len(ended) >= 2)
        assert ended == [("soon", False), ("late", False)]
        news.set()
    assert sorted(ended[2:]) == [("ever", True), ("later", True)]
    news.close()


async def test_the_deadline_of_a_call_that_has_returned_does_not_end_the_next_one():
    loop = asyncio.get_running_loop()
    news = WakeupEvent(loop)
    loop.call_soon(news.set)
    assert await news.wait(loop.time() + 0.01)
    began = loop.time()
    assert not await news.wait(began + 0.05)
    assert loop.time() - began > 0.045


def test_a_partition_that_has_handed_out_everything_leaves_the_line():
    assignment = Assignment(on_filled=lambda: None)
    partitions = [TopicPartition("orders", index) for index in range(2)]
    assignment.replace(partitions, PendingLookup.NOTHING)
    first, second = (assignment[each] for each in partitions)
    for state in (first, second):
        state.fail(ValueError("something to hand out"))
        assignment.enqueue_ready(state)
    assignment.rotate_ready()
    assert assignment.first_ready() is second
    second.fetched.clear()
    assignment.rotate_ready()
    assert (assignment.ready_count, assignment.first_ready()) == (1, first)
    assignment.enqueue_ready(second)  # as the next fetch does
    assert assignment.ready_count == 2
