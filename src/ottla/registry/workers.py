"""Parse and check schemas in worker processes, so that no schema blocks the event loop.

A job runs in a separate process, with a deadline and a memory limit. A job that takes too long fails;
its process is replaced, and no other request is affected. Jobs that wait for a process have their whole
deadline left once they run: else the last ones would fail for the first ones, and cost a process each. Jobs
and results are pickled between processes of ours: what comes from a client is only the text inside a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import sys
from types import TracebackType
from typing import Any, Self

from ottla.registry import jobs
from ottla.registry.jobs import JobFailed
from ottla.registry.sized_cache import SizedCache
from ottla.registry.worker_process import LENGTH_BYTES

log = logging.getLogger(__name__)

PIPE_BYTES = 1024 * 1024
START_TIMEOUT_S = 60.0
MAX_CACHED = 2_000
MAX_CACHED_CHARS = 64 * 1024 * 1024


class JobTimedOut(Exception):
    """A job was not done by its deadline."""


class WorkersBusy(Exception):
    """No process became free in time; the job may be repeated."""


class _Worker:
    """One process, and the pipes to it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> _Worker:
        """Start a process, and wait until it has imported what it needs."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ottla.registry.worker_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=PIPE_BYTES,
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await worker._receive()
        except (TimeoutError, EOFError) as error:
            await worker.kill()
            raise JobFailed(f"a process for schemas did not start: {error!r}") from None
        except BaseException:
            process.kill()
            raise
        return worker

    async def run(self, job: jobs.Job, deadline_s: float) -> Any:
        """Send a job and return what came of it."""
        assert self._process.stdin is not None
        body = pickle.dumps(job)
        try:
            async with asyncio.timeout(deadline_s):
                self._process.stdin.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
                await self._process.stdin.drain()
                return await self._receive()
        except TimeoutError:
            raise JobTimedOut from None
        except (EOFError, OSError) as error:
            raise JobFailed(f"the process that parses schemas ended: {error!r}") from None

    async def _receive(self) -> Any:
        assert self._process.stdout is not None
        length = int.from_bytes(await self._process.stdout.readexactly(LENGTH_BYTES), "big")
        body = await self._process.stdout.readexactly(length)
        return pickle.loads(body)  # noqa: S301 (written by our own process)

    async def kill(self) -> None:
        """End the process at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class Workers:
    """A few processes; jobs wait for a free one."""

    def __init__(self, count: int = 2, deadline_s: float = 5.0, wait_s: float = 20.0) -> None:
        self._deadline_s = deadline_s
        self._wait_s = wait_s
        self._count = count
        self._free: asyncio.Queue[_Worker | None] = asyncio.Queue()
        self._all: set[_Worker] = set()
        self._cache: SizedCache[jobs.Job, Any] = SizedCache(MAX_CACHED, MAX_CACHED_CHARS)

    async def __aenter__(self) -> Self:
        for _ in range(self._count):
            self._free.put_nowait(await self._start())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in list(self._all):
            await self._end(worker)

    async def run(self, job: jobs.Job) -> Any:
        """Return a job's result, perhaps one from before.

        Raises what the job raised, or JobTimedOut, WorkersBusy, JobFailed.
        """
        if isinstance(job, jobs.Decode):  # of records, which are all different
            return await self._run(job)
        if job in self._cache:
            outcome = self._cache[job]
        else:
            outcome = await self._run(job)
            if not isinstance(outcome, JobFailed):
                self._cache.put(job, outcome, job.size)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _run(self, job: jobs.Job) -> Any:
        try:
            async with asyncio.timeout(self._wait_s):
                worker = await self._free.get()
        except TimeoutError:
            raise WorkersBusy from None
        try:
            if worker is None:
                worker = await self._start()
            outcome = await worker.run(job, self._deadline_s)
        except BaseException:
            if worker is not None:
                await self._end(worker)
            self._free.put_nowait(None)  # the next job starts another process
            raise
        self._free.put_nowait(worker)
        return outcome

    async def _start(self) -> _Worker:
        worker = await _Worker.start()
        self._all.add(worker)
        return worker

    async def _end(self, worker: _Worker) -> None:
        self._all.discard(worker)
        await worker.kill()
