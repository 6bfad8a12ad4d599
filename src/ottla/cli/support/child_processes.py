"""Run `ottla` commands as child processes: wait for their `ready` line, restart them, stop them in order.

`ottla serve -n` and `ottla up` share it. A child is a service command of Ottla. It prints one line that
starts with `ready` to standard output; its standard error is printed here, prefixed with its name. A child
that crashes is restarted after a delay; one that was stopped (exit code 0) is not. If this process is killed,
the kernel kills the children.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem
from ottla.common.log_format import JSON
from ottla.common.processes import die_with_parent

READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 60.0
RESTART_AFTER_S = 10.0
"""Longer than a session by default, so that the failover to other leaders can be seen."""


class Child:
    """One process, and its output."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_format: str) -> None:
        self.name = name
        self._speaks_json = log_format == JSON
        self.process = process
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """What its `ready` line says after that word."""
        self.listening = asyncio.create_task(self._listen(), name=f"listen to {name}")

    @classmethod
    async def start(cls, name: str, arguments: Sequence[str], log_format: str) -> Child:
        """Start `ottla ARGUMENTS`."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ottla.cli.main",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is handled here: we stop them in order
            preexec_fn=die_with_parent,
            limit=1 << 20,
        )
        return cls(name, process, log_format)

    @property
    def ready_text(self) -> str:
        """Return what its `ready` line said, "" if it never was ready."""
        is_ready = self.ready.done() and not self.ready.cancelled() and self.ready.exception() is None
        return self.ready.result() if is_ready else ""

    async def _listen(self) -> None:
        """Forward the output until it ends; the `ready` line is consumed here."""
        await asyncio.gather(self._read_stdout(), self._read_stderr())
        code = await self.process.wait()
        if not self.ready.done():
            self.ready.set_exception(Problem(f"{self.name} ended with exit code {code}, see above"))
            self.ready.exception()  # mark the exception as retrieved

    async def _read_stdout(self) -> None:
        async for line in _lines(self.process.stdout):
            text = line.decode(errors="replace").rstrip()
            if text.startswith("ready") and not self.ready.done():
                self.ready.set_result(text.removeprefix("ready").lstrip(": "))

    async def _read_stderr(self) -> None:
        async for line in _lines(self.process.stderr):
            text = line.decode(errors="replace").rstrip()
            is_json = self._speaks_json and text.startswith("{")  # JSON lines contain the broker's name
            echo_err(text if is_json else f"{self.name} | {text}")


async def _lines(stream: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    """Yield the lines of a pipe; one that is too long is left out. Unread, it would block the child."""
    assert stream is not None
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the limit
            line = b"[a line that is too long]\n"
        if not line:
            return
        yield line


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGINT, SIGTERM and SIGHUP set."""
    stopping = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    return stopping


async def wait_until_ready(children: Sequence[Child], stopping: asyncio.Event) -> list[str] | None:
    """Return the text of each child's `ready` line; None if a signal came first."""
    starting = asyncio.gather(*(child.ready for child in children))
    waiting = asyncio.ensure_future(stopping.wait())
    either: list[asyncio.Future[Any]] = [starting, waiting]
    try:
        await asyncio.wait(either, timeout=READY_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            return None
        if not starting.done():
            late = ", ".join(child.name for child in children if not child.ready.done())
            raise Problem(f"{late}: not ready within {READY_WITHIN_S:g} s")
        return list(starting.result())
    finally:
        waiting.cancel()
        starting.cancel()


Restart = Callable[[Child], Awaitable[Child]]
"""Starts a child again."""


async def keep_running(children: list[Child], restart: Restart, stopping: asyncio.Event) -> None:
    """Restart children that crash, until a signal; raise Problem when all of them were stopped."""
    keeping = asyncio.gather(*(_keep_one(index, children, restart) for index in range(len(children))))
    signalled = asyncio.ensure_future(stopping.wait())
    either: list[asyncio.Future[Any]] = [signalled, keeping]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.is_set():
            keeping.result()
            raise Problem("every process has stopped")
    finally:
        signalled.cancel()
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def _keep_one(index: int, children: list[Child], restart: Restart) -> None:
    while True:
        child = children[index]
        code = await child.process.wait()
        if code == 0:
            echo_err(f"{child.name} was stopped; the others keep running")
            return
        echo_err(f"{child.name} ended with exit code {code}; restarting it in {RESTART_AFTER_S:g} s")
        await asyncio.sleep(RESTART_AFTER_S)
        children[index] = again = await restart(child)
        echo_err(f"{again.name} was restarted, process {again.process.pid}")


async def stop_children(children: Sequence[Child]) -> None:
    """Stop all of them at once; kill those that take too long."""
    for child in children:
        with suppress(ProcessLookupError):
            child.process.terminate()
    try:
        async with asyncio.timeout(STOPPED_WITHIN_S):
            for child in children:
                await child.process.wait()
    except TimeoutError:
        for child in children:
            with suppress(ProcessLookupError):
                child.process.kill()
    for child in children:
        await child.listening
