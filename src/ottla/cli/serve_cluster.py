"""`ottla serve -n 3`: a whole cluster on this machine, in one terminal.

One ZooKeeper and n brokers, each a process of its own as on machines of their own, all ended by one Ctrl-C.
What they say on standard error comes out here, with the name of who said it.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from ottla.broker.zookeeper_server import ZooKeeperFailed, ZooKeeperServer
from ottla.cli.output import talk
from ottla.cli.problems import Problem
from ottla.cli.start_problems import could_not_start
from ottla.common.log_format import JSON, TEXT
from ottla.common.metrics_keys import AUTO as METRICS_AUTO
from ottla.common.metrics_keys import METRICS_PORT, OFF
from ottla.common.processes import die_with_parent

READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 60.0
MOST_REPLICAS = 3


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What to run. `settings` and `file` are for every broker; brokers listen on ports from `port` on."""

    brokers: int
    data: Path
    host: str
    port: int
    zookeeper: str | None
    settings: Mapping[str, str]
    file: Path | None
    log_level: str
    log_format: str = TEXT
    """`text`, which is told apart by names, or `json`, which tells by itself who speaks."""
    metrics: str = METRICS_AUTO
    """`ottla.metrics.listen` of the first broker; the others have the ports after it."""

    def arguments(self, number: int, zookeeper: str) -> list[str]:
        """Return the command line of one broker."""
        port = self.port + number - 1 if self.port else 0
        replicas = str(min(self.brokers, MOST_REPLICAS))
        defaults = {"default.replication.factor": replicas, "offsets.topic.replication.factor": replicas}
        arguments = ["serve", "--node-id", str(number), "--data", str(self.data / f"broker-{number}")]
        arguments += ["--listen", f"{self.host}:{port}", "--zookeeper", zookeeper]
        arguments += ["--log-level", self.log_level, "--log-format", self.log_format]
        arguments += ["--metrics", metrics_of(self.metrics, number)]
        if self.file is not None:
            arguments += ["--config", str(self.file)]
        for key, value in {**defaults, **self.settings}.items():
            if key == "ottla.metrics.listen":
                continue  # said above, for each broker
            arguments += ["--set", f"{key}={value}"]
        return arguments


def metrics_of(place: str, number: int) -> str:
    """Return where broker `number` serves its metrics, given where the first one does."""
    place = place.strip()
    if place in (OFF, METRICS_AUTO):
        return place if place == OFF else f"{METRICS_AUTO}:{METRICS_PORT + number - 1}"
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit() or port == "0":
        return place  # any free port; or the broker says what is wrong with it
    return f"{host}:{int(port) + number - 1}"


class _Child:
    """One broker process, and what it says."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_format: str) -> None:
        self.name = name
        self._speaks_json = log_format == JSON
        self.process = process
        self.address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.listening = asyncio.create_task(self._listen(), name=f"listen to {name}")

    async def _listen(self) -> None:
        """Pass on what the broker says, until it ends; its `ready` line is kept for us."""
        await asyncio.gather(self._read_stdout(), self._read_stderr())
        code = await self.process.wait()
        if not self.address.done():
            self.address.set_exception(Problem(f"{self.name} ended with exit code {code}, see above"))
            self.address.exception()  # seen, even if nobody asks

    async def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            text = line.decode(errors="replace").rstrip()
            if text.startswith("ready ") and not self.address.done():
                self.address.set_result(text.removeprefix("ready "))

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            text = line.decode(errors="replace").rstrip()
            is_json = self._speaks_json and text.startswith("{")  # it says by itself who speaks
            talk(text if is_json else f"{self.name} | {text}")


def run_cluster(plan: ClusterPlan, *, ephemeral: bool) -> int:
    """Run the cluster until SIGINT or SIGTERM; return the exit code."""
    folder = tempfile.mkdtemp(prefix="ottla-") if ephemeral else None
    try:
        return asyncio.run(_run(plan if folder is None else replace(plan, data=Path(folder))))
    except ZooKeeperFailed as error:
        raise could_not_start(error) from None
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


async def _run(plan: ClusterPlan) -> int:
    stopping = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    async with AsyncExitStack() as stack:
        zookeeper = plan.zookeeper or await _start_zookeeper(plan, stack)
        children: list[_Child] = []
        stack.push_async_callback(_stop, children)
        for number in range(1, plan.brokers + 1):  # one by one, so that those that started are stopped
            children.append(  # noqa: PERF401
                await _start_broker(number, plan.arguments(number, zookeeper), plan.log_format)
            )
        await _until_ready(children, zookeeper, stopping)
        await _until_stopped(children, stopping)
    return 0


async def _start_zookeeper(plan: ClusterPlan, stack: AsyncExitStack) -> str:
    server = ZooKeeperServer(plan.data / "zookeeper", port=_free_port())
    server.launch(dies_with_us=True)
    stack.callback(server.stop)
    await asyncio.to_thread(server.wait_until_ready)
    return server.address


async def _start_broker(number: int, arguments: Sequence[str], log_format: str) -> _Child:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ottla.cli.main",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is ours, and we stop them in order
        preexec_fn=die_with_parent,
        limit=1 << 20,
    )
    return _Child(f"broker-{number}", process, log_format)


async def _until_ready(children: Sequence[_Child], zookeeper: str, stopping: asyncio.Event) -> None:
    starting = asyncio.gather(*(child.address for child in children))
    waiting = asyncio.ensure_future(stopping.wait())
    either: list[asyncio.Future[Any]] = [starting, waiting]
    try:
        await asyncio.wait(either, timeout=READY_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            return
        if not starting.done():
            raise Problem(f"the brokers were not ready within {READY_WITHIN_S:g} s")
        addresses = starting.result()
    finally:
        waiting.cancel()
        starting.cancel()
    for child, address in zip(children, addresses, strict=True):
        talk(f"{child.name} listens on {address}, process {child.process.pid}")
    talk(f"ZooKeeper is at {zookeeper}. Ctrl-C stops everything.")
    click.echo(f"ready {' '.join(addresses)}")


async def _until_stopped(children: Sequence[_Child], stopping: asyncio.Event) -> None:
    """Wait for a signal. A broker that ends before it is missed, but the others go on: that is a cluster."""
    ends: dict[asyncio.Future[Any], _Child] = {
        asyncio.ensure_future(child.process.wait()): child for child in children
    }
    signalled: asyncio.Future[Any] = asyncio.ensure_future(stopping.wait())
    while not stopping.is_set():
        done, _ = await asyncio.wait([signalled, *ends], return_when=asyncio.FIRST_COMPLETED)
        for end in done - {signalled}:
            child = ends.pop(end)
            talk(f"{child.name} has ended with exit code {child.process.returncode}; the others go on")
        if not ends:
            raise Problem("all brokers have ended")
    for end in ends:
        end.cancel()


async def _stop(children: Sequence[_Child]) -> None:
    """Stop the brokers, all at once; those that take too long are killed."""
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


def _free_port() -> int:
    """Return a port for ZooKeeper that nobody has; only our brokers need to know it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
