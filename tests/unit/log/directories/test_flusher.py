from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable

import pytest
from tests.unit.log.bench import LogBench

from ottla.log.directories.flusher import Flusher
from ottla.log.flush import FlushJob
from ottla.protocol.errors import KafkaStorageError


class Gate:
    """Holds fsyncs back until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        run: Callable[[FlushJob], None] = FlushJob.run

        def held(job: FlushJob) -> None:
            self.entered.release()
            assert self.open.wait(10)
            run(job)

        monkeypatch.setattr(FlushJob, "run", held)

    async def wait_until_entered(self) -> None:
        assert await asyncio.to_thread(self.entered.acquire, timeout=10)


async def test_everything_below_the_offset_is_durable_afterwards() -> None:
    bench = LogBench()
    bench.fill(30)
    async with Flusher() as flusher:
        await flusher.flush_up_to(bench.log, 30)
        assert bench.log.recovery_point == 30
        await flusher.flush_up_to(bench.log, 10)
        assert flusher.flushes == 1


async def test_all_who_wait_while_an_fsync_runs_share_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    bench = LogBench()
    async with Flusher() as flusher, asyncio.TaskGroup() as tasks:
        bench.fill(1)
        tasks.create_task(flusher.flush_up_to(bench.log, 1))
        await gate.wait_until_entered()
        waiting = []
        for number in range(2, 52):
            bench.fill(1, first=number)
            waiting.append(tasks.create_task(flusher.flush_up_to(bench.log, number)))
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.wait(waiting)
        assert bench.log.recovery_point == 51
        assert flusher.flushes == 2


async def test_a_failed_fsync_fails_everybody_and_takes_the_directory_offline() -> None:
    bench = LogBench()
    bench.fill(3)
    bench.disk.fail("fsync", errno.EIO)
    async with Flusher() as flusher:
        outcomes = await asyncio.gather(
            *(flusher.flush_up_to(bench.log, 3) for _ in range(5)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [KafkaStorageError] * 5
        assert bench.storage.offline_reason is not None
        with pytest.raises(KafkaStorageError, match="offline"):
            await flusher.flush_up_to(bench.log, 3)
    assert flusher.flushes == 1


async def test_no_room_for_the_leader_epochs_is_waited_out() -> None:
    bench = LogBench()
    bench.fill(3)
    bench.disk.capacity_bytes = bench.disk.used_bytes()
    async with Flusher() as flusher:
        with pytest.raises(KafkaStorageError, match="No space left"):
            await flusher.flush_up_to(bench.log, 3)
        assert bench.storage.offline_reason is None
        assert bench.log.recovery_point == 0
        bench.disk.capacity_bytes = None
        await flusher.flush_up_to(bench.log, 3)
        assert bench.log.recovery_point == 3


async def test_waiting_for_what_was_never_appended_is_an_error() -> None:
    bench = LogBench()
    bench.fill(3)
    async with Flusher() as flusher:
        with pytest.raises(KafkaStorageError, match="ends before"):
            await flusher.flush_up_to(bench.log, 4)


async def test_who_waits_for_a_log_that_is_closed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    bench = LogBench()
    bench.fill(3)
    async with Flusher() as flusher:
        waiting = asyncio.ensure_future(flusher.flush_up_to(bench.log, 3))
        await gate.wait_until_entered()
        bench.log.close(clean=False)
        gate.open.set()
        with pytest.raises(KafkaStorageError, match="closed"):
            await waiting
    assert bench.storage.offline_reason is None


async def test_one_waiter_that_is_cancelled_does_not_disturb_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate(monkeypatch)
    bench = LogBench()
    bench.fill(3)
    async with Flusher() as flusher:
        first = asyncio.ensure_future(flusher.flush_up_to(bench.log, 3))
        second = asyncio.ensure_future(flusher.flush_up_to(bench.log, 3))
        await gate.wait_until_entered()
        first.cancel()
        gate.open.set()
        await second
        assert bench.log.recovery_point == 3
        assert first.cancelled()


async def test_a_stopped_flusher_refuses() -> None:
    bench = LogBench()
    bench.fill(1)
    async with Flusher() as flusher:
        pass
    with pytest.raises(KafkaStorageError, match="stopping"):
        await flusher.flush_up_to(bench.log, 1)
