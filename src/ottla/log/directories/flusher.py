"""Group commit: all requests that wait for one log to be durable share one fsync.

    await flusher.flush_up_to(log, offset)

returns once everything below `offset` would survive a power failure. While a log is being fsynced, new
waiters gather; when it ends, those it covered continue and one more fsync serves all the others. Each log has
at most one fsync running, the disk a few.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from ottla.log.flush import FlushJob
from ottla.log.log import Log
from ottla.protocol.errors import KafkaStorageError

DEFAULT_THREADS = 4


class Flusher:
    """Runs the flushes of all logs; an `async with` service."""

    def __init__(self, threads: int = DEFAULT_THREADS) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._running: dict[int, asyncio.Future[None]] = {}
        self.flushes = 0
        """The number of flushes started."""

    async def __aenter__(self) -> Flusher:
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="ottla-flush")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Wait for the running flushes; reject further ones."""
        executor, self._executor = self._executor, None
        while self._running:
            await asyncio.wait(list(self._running.values()))
        if executor is not None:
            executor.shutdown(wait=True)

    async def flush_up_to(self, log: Log, offset: int) -> None:
        """Wait until everything below `offset` is durable; raise KafkaStorageError if that fails.

        Also if the log is closed, or truncated below `offset`, in the meantime.
        """
        while log.recovery_point < offset:
            running = self._running.get(id(log)) or self._start(log)
            if running is None:
                raise KafkaStorageError(f"{log.path} ends before offset {offset}")
            await asyncio.shield(running)
            if log.is_closed:
                raise KafkaStorageError(f"{log.path} was closed before it was flushed")

    def _start(self, log: Log) -> asyncio.Future[None] | None:
        if self._executor is None:
            raise KafkaStorageError("the broker is stopping")
        job = log.begin_flush()
        if job is None:
            return None
        self.flushes += 1
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running[id(log)] = done
        work = asyncio.get_running_loop().run_in_executor(self._executor, job.run)
        work.add_done_callback(lambda finished: self._finish(log, job, finished, done))
        return done

    def _finish(
        self, log: Log, job: FlushJob, finished: asyncio.Future[None], done: asyncio.Future[None]
    ) -> None:
        """Complete a flush on the loop: waiters check the recovery point, or get the error."""
        del self._running[id(log)]
        error = finished.exception()
        if error is None or isinstance(error, OSError):
            log.finish_flush(job, error)
        else:
            log.finish_flush(job, OSError(f"{type(error).__name__}: {error}"))
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(KafkaStorageError(f"flushing {log.path}: {error}"))
            done.exception()  # waiters have it; without waiters, it must not be reported as never retrieved
