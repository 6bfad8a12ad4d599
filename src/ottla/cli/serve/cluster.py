"""`ottla serve -n 3`: a whole cluster on this machine, in one terminal.

One ZooKeeper and n brokers, each in a process of its own, all ended by one Ctrl-C: the brokers first, then
ZooKeeper. A broker that crashes is restarted after a delay; one that was stopped (exit code 0) is not. Their
standard error is printed here, prefixed with their names.
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
from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem
from ottla.cli.support.start_problems import could_not_start
from ottla.common.config.metrics_keys import AUTO as METRICS_AUTO
from ottla.common.config.metrics_keys import METRICS_PORT, OFF
from ottla.common.log_format import JSON, TEXT
from ottla.common.processes import die_with_parent

READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 60.0
RESTART_AFTER_S = 10.0
"""Longer than a session by default, so that the failover to other leaders can be seen."""
MAX_REPLICAS = 3


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
    """`text`, which gets the broker's name as a prefix, or `json`, which contains it."""
    metrics: str = METRICS_AUTO
    """`ottla.metrics.listen` of the first broker; the others use the ports after it."""
    first_id: int = 1
    """The node id of the first broker; the others use those after it."""

    def name(self, number: int) -> str:
        """Return the name of a broker, counted from 1, for its data directory and log lines."""
        return f"broker-{self.first_id + number - 1}"

    def arguments(self, number: int, zookeeper: str, free_port: int = 0) -> list[str]:
        """Return the command line of a broker; `free_port` is its port before a restart if it uses any
        free one.
        """
        port = self.port + number - 1 if self.port else free_port
        node_id = str(self.first_id + number - 1)
        replicas = str(min(self.brokers, MAX_REPLICAS))
        defaults = {"default.replication.factor": replicas, "offsets.topic.replication.factor": replicas}
        arguments = ["serve", "--node-id", node_id, "--data", str(self.data / self.name(number))]
        arguments += ["--listen", f"{self.host}:{port}", "--zookeeper", zookeeper]
        arguments += ["--log-level", self.log_level, "--log-format", self.log_format]
        arguments += ["--metrics", metrics_of(self.metrics, number)]
        if self.file is not None:
            arguments += ["--config", str(self.file)]
        for key, value in {**defaults, **self.settings}.items():
            if key == "ottla.metrics.listen":
                continue  # set above, for each broker
            if key == "broker.rack":
                racks = value.split(",")
                value = racks[(number - 1) % len(racks)].strip()
            arguments += ["--set", f"{key}={value}"]
        return arguments


def metrics_of(place: str, number: int) -> str:
    """Return the metrics address of broker `number`, given that of the first one."""
    place = place.strip()
    if place in (OFF, METRICS_AUTO):
        return place if place == OFF else f"{METRICS_AUTO}:{METRICS_PORT + number - 1}"
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit() or port == "0":
        return place  # any free port; or the broker reports that it is invalid
    return f"{host}:{int(port) + number - 1}"


class _Child:
    """One broker process, and its output."""

    def __init__(self, number: int, name: str, process: asyncio.subprocess.Process, log_format: str) -> None:
        self.number = number
        self.name = name
        self._speaks_json = log_format == JSON
        self.process = process
        self.address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.listening = asyncio.create_task(self._listen(), name=f"listen to {name}")

    async def _listen(self) -> None:
        """Forward the broker's output until it ends; its `ready` line is consumed here."""
        await asyncio.gather(self._read_stdout(), self._read_stderr())
        code = await self.process.wait()
        if not self.address.done():
            self.address.set_exception(Problem(f"{self.name} ended with exit code {code}, see above"))
            self.address.exception()  # mark the exception as retrieved

    @property
    def port(self) -> int:
        """Return its port, 0 if it never listened."""
        if not self.address.done() or self.address.exception() is not None:
            return 0
        return int(self.address.result().rpartition(":")[2])

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
            is_json = self._speaks_json and text.startswith("{")  # JSON lines contain the broker's name
            echo_err(text if is_json else f"{self.name} | {text}")


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
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    async with AsyncExitStack() as stack:
        zookeeper = plan.zookeeper or await _start_zookeeper(plan, stack)
        children: list[_Child] = []
        stack.push_async_callback(_stop, children)
        for number in range(1, plan.brokers + 1):  # one by one, so that those that have started are stopped
            children.append(await _start_broker(number, plan, zookeeper))  # noqa: PERF401
        await _wait_until_ready(children, zookeeper, stopping)
        await _wait_until_stopped(children, plan, zookeeper, stopping)
    return 0


async def _start_zookeeper(plan: ClusterPlan, stack: AsyncExitStack) -> str:
    server = ZooKeeperServer(plan.data / "zookeeper", port=_free_port())
    server.launch(dies_with_us=True)
    stack.callback(server.stop)
    await asyncio.to_thread(server.wait_until_ready)
    return server.address


async def _start_broker(number: int, plan: ClusterPlan, zookeeper: str, free_port: int = 0) -> _Child:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ottla.cli.main",
        *plan.arguments(number, zookeeper, free_port),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is handled here: we stop them in order
        preexec_fn=die_with_parent,
        limit=1 << 20,
    )
    return _Child(number, plan.name(number), process, plan.log_format)


async def _wait_until_ready(children: Sequence[_Child], zookeeper: str, stopping: asyncio.Event) -> None:
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
        echo_err(f"{child.name} listens on {address}, process {child.process.pid}")
    echo_err(f"ZooKeeper is at {zookeeper}. Ctrl-C stops everything.")
    click.echo(f"ready {' '.join(addresses)}")


async def _wait_until_stopped(
    children: list[_Child], plan: ClusterPlan, zookeeper: str, stopping: asyncio.Event
) -> None:
    """Wait for a signal, and restart brokers that crash."""
    keeping = asyncio.gather(
        *(_keep_running(index, children, plan, zookeeper) for index in range(len(children)))
    )
    signalled = asyncio.ensure_future(stopping.wait())
    either: list[asyncio.Future[Any]] = [signalled, keeping]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.is_set():
            keeping.result()
            raise Problem("all brokers have stopped")
    finally:
        signalled.cancel()
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping


async def _keep_running(index: int, children: list[_Child], plan: ClusterPlan, zookeeper: str) -> None:
    """Restart a broker whenever it crashes, at the same address; return when it was stopped."""
    port = 0
    while True:
        child = children[index]
        code = await child.process.wait()
        port = child.port or port
        if code == 0:
            echo_err(f"{child.name} was stopped; the others keep running")
            return
        echo_err(f"{child.name} ended with exit code {code}; restarting it in {RESTART_AFTER_S:g} s")
        await asyncio.sleep(RESTART_AFTER_S)
        children[index] = again = await _start_broker(child.number, plan, zookeeper, port)
        echo_err(f"{again.name} was restarted, process {again.process.pid}")


async def _stop(children: Sequence[_Child]) -> None:
    """Stop all brokers at once; kill those that take too long."""
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
    """Return a free port for ZooKeeper; only our brokers need to know it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
