"""Starts the engine's process when the first task is due, and again when it dies; passes commands and events.

Tasks that ran in an engine that died are reported as failed, and retriable: the herder starts them again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ottla.common.backoff import doubled
from ottla.connect.engine.spec import TaskSpec

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 20.0
INITIAL_BACKOFF_MS, MAX_BACKOFF_MS = 1_000, 60_000


@dataclass(frozen=True)
class EngineOptions:
    """How an engine is run."""

    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict)
    plugin_path: tuple[str, ...] = ()
    log_file: Path | None = None
    """Where Spark's output goes; None: to that of the worker."""


class EngineSupervisor:
    """One engine of a worker."""

    def __init__(self, options: EngineOptions, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._options = options
        self._on_event = on_event
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._ready = asyncio.Event()
        self._tasks: dict[str, int] = {}
        self._failures = 0
        self._closed = False
        self.jvm_pid: int | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the engine, if it runs."""
        return None if self._process is None else self._process.pid

    async def start_task(self, spec: TaskSpec) -> None:
        """Have a task started; events tell what becomes of it."""
        self._tasks[spec.id] = spec.run
        await self._ensure()
        if self._tasks.get(spec.id) == spec.run:
            self._send({"start": asdict(spec)})

    async def stop_task(self, task: str, run: int) -> None:
        """Have a task stopped; the event `stopped` follows."""
        if self._process is None or self._process.returncode is not None or not self._ready.is_set():
            self._tasks.pop(task, None)
            self._on_event({"event": "stopped", "task": task, "run": run, "report": None})
        else:
            self._send({"stop": task, "run": run})

    async def close(self) -> None:
        """End the process."""
        self._closed = True
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    def _send(self, command: dict[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def _ensure(self) -> None:
        """Start the process if there is none, and wait until it takes commands."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                if self._failures:
                    pause_ms = doubled(INITIAL_BACKOFF_MS, self._failures, MAX_BACKOFF_MS)
                    await asyncio.sleep(pause_ms / 1000)
                if self._closed:
                    return
                await self._launch()
        await self._ready.wait()

    async def _launch(self) -> None:
        self._ready.clear()
        reading, writing = os.pipe()
        log_file = self._options.log_file
        output = log_file.open("ab") if log_file is not None else None
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ottla.connect.engine.process",
                str(writing),
                stdin=asyncio.subprocess.PIPE,
                stdout=output or sys.stderr,
                stderr=output or sys.stderr,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
            if output is not None:
                output.close()
        log.info("the engine is started: process %d, Spark at %s", self._process.pid, self._options.master)
        self._send(
            {
                "master": self._options.master,
                "conf": self._options.conf,
                "plugin_path": list(self._options.plugin_path),
            }
        )
        self._reading = asyncio.create_task(self._read(self._process, reading), name="engine events")

    async def _read(self, process: asyncio.subprocess.Process, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 24)
        pipe = os.fdopen(descriptor, "rb")
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while line := await reader.readline():
                event = json.loads(line)
                if event["event"] == "ready":
                    self._failures = 0
                    self.jvm_pid = event.get("jvm")
                    self._ready.set()
                else:
                    self._forward(event)
        finally:
            transport.close()
        await process.wait()
        self._ended(process)

    def _forward(self, event: dict[str, Any]) -> None:
        """Pass an event on; a task that has ended is not reported again when the engine ends."""
        if event["event"] in ("stopped", "failed") and self._tasks.get(event["task"]) == event["run"]:
            del self._tasks[event["task"]]
        self._on_event(event)

    def _ended(self, process: asyncio.subprocess.Process) -> None:
        if self._closed or process is not self._process:
            return
        self._failures += 1
        self.jvm_pid = None
        self._process = None
        self._ready.set()  # wake the waiters: they check the process again
        where = f"; see {self._options.log_file}" if self._options.log_file else ""
        log.error("the engine has ended with %s%s", process.returncode, where)
        trace = f"The Spark engine of this worker has ended (exit code {process.returncode}){where}"
        lost, self._tasks = self._tasks, {}
        for task, run in lost.items():
            self._on_event({"event": "failed", "task": task, "run": run, "trace": trace, "retriable": True})
