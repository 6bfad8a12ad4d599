"""Requests that wait."""

import asyncio

import pytest

from ottla.replication.purgatory import Purgatory, Watcher


class FakePartition:
    def __init__(self) -> None:
        self.watchers: dict[Watcher, int | None] = {}
        self.last_stable_offset = 7

    def grow(self, size_bytes: int) -> None:
        for watcher in list(self.watchers):
            watcher.on_growth(size_bytes)


async def test_enough_bytes_on_any_partitions_end_the_wait() -> None:
    purgatory, first, second = Purgatory(), FakePartition(), FakePartition()
    future = purgatory.park("client", [first, second], 10, 60_000, lambda: "answer")
    first.grow(4)
    assert not future.done()
    second.grow(6)
    assert await future == "answer"


async def test_the_deadline_ends_the_wait_with_what_there_is() -> None:
    purgatory, partition = Purgatory(), FakePartition()
    future = purgatory.park("client", [partition], 10, 5, lambda: "too little")
    assert await asyncio.wait_for(future, 5) == "too little"


async def test_who_waits_for_committed_records_leaves_the_last_stable_offset_it_knows() -> None:
    purgatory, partition = Purgatory(), FakePartition()
    purgatory.park("a", [partition], 1, 60_000, lambda: None)
    purgatory.park("b", [partition], 1, 60_000, lambda: None, committed_only=True)
    assert list(partition.watchers.values()) == [None, 7]
    purgatory.stop()


async def test_nothing_is_left_behind_after_the_answer() -> None:
    purgatory, partition = Purgatory(), FakePartition()
    future = purgatory.park("client", [partition], 1, 60_000, lambda: None)
    partition.grow(1)
    await future
    await asyncio.sleep(0)
    assert not partition.watchers
    assert len(purgatory) == 0


async def test_a_client_that_goes_away_stops_waiting() -> None:
    purgatory, partition = Purgatory(), FakePartition()
    future = purgatory.park("client", [partition], 1, 60_000, lambda: pytest.fail("nobody wants this answer"))
    purgatory.cancel("client")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert future.cancelled()
    assert not partition.watchers
    partition.grow(1)
    assert len(purgatory) == 0


async def test_a_failure_while_answering_reaches_the_waiter() -> None:
    purgatory, partition = Purgatory(), FakePartition()

    def fail() -> None:
        raise ValueError("broken")

    future = purgatory.park("client", [partition], 1, 60_000, fail)
    partition.grow(1)
    with pytest.raises(ValueError, match="broken"):
        await future


async def test_stopping_answers_all_and_lets_no_request_wait_again() -> None:
    purgatory, partition = Purgatory(), FakePartition()
    waiting = [purgatory.park(client, [partition], 1, 600_000, lambda: "bye") for client in range(3)]
    purgatory.stop()
    assert await asyncio.gather(*waiting) == ["bye"] * 3
    late = purgatory.park("client", [partition], 1, 600_000, lambda: "late")
    assert await asyncio.wait_for(late, 5) == "late"
