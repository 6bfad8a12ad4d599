"""`ottla serve -n 3`: a whole cluster on this machine, in one terminal.

One ZooKeeper and n brokers, each in a process of its own, all ended by one Ctrl-C: the brokers first, then
ZooKeeper. A broker that crashes is restarted after a delay; one that was stopped (exit code 0) is not. Their
standard error is printed here, prefixed with their names.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from ottla.broker.zookeeper_server import ZooKeeperFailed, ZooKeeperServer
from ottla.cli.support.child_processes import (
    Child,
    keep_running,
    stop_children,
    stop_on_signals,
    wait_until_ready,
)
from ottla.cli.support.output import echo_err
from ottla.cli.support.start_problems import could_not_start
from ottla.common.config.metrics_keys import AUTO as METRICS_AUTO
from ottla.common.config.metrics_keys import METRICS_PORT, OFF
from ottla.common.log_format import TEXT

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
    listeners: Mapping[str, str] = field(default_factory=dict)
    """`listeners` and `advertised.listeners` of the first broker, instead of `host` and `port`."""

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
        arguments += ["--zookeeper", zookeeper]
        if not self.listeners:
            arguments += ["--listen", f"{self.host}:{port}"]
        arguments += ["--log-level", self.log_level, "--log-format", self.log_format]
        arguments += ["--metrics", metrics_of(self.metrics, number)]
        if self.file is not None:
            arguments += ["--config", str(self.file)]
        listeners = {key: shifted_ports(value, number - 1) for key, value in self.listeners.items()}
        for key, value in {**defaults, **self.settings, **listeners}.items():
            if key == "ottla.metrics.listen":
                continue  # set above, for each broker
            if key == "broker.rack":
                racks = value.split(",")
                value = racks[(number - 1) % len(racks)].strip()
            arguments += ["--set", f"{key}={value}"]
        return arguments


def shifted_ports(listeners: str, by: int) -> str:
    """Return listeners with other ports, for a broker that is `by` after the first one."""
    items = listeners.split(",")

    def shift(item: str) -> str:
        head, colon, port = item.strip().rpartition(":")
        is_fixed = colon and port.isdigit() and port != "0"
        return f"{head}:{int(port) + by * len(items)}" if is_fixed else item.strip()

    return ",".join(map(shift, items))


def metrics_of(place: str, number: int) -> str:
    """Return the metrics address of broker `number`, given that of the first one."""
    place = place.strip()
    if place in (OFF, METRICS_AUTO):
        return place if place == OFF else f"{METRICS_AUTO}:{METRICS_PORT + number - 1}"
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit() or port == "0":
        return place  # any free port; or the broker reports that it is invalid
    return f"{host}:{int(port) + number - 1}"


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
    stopping = stop_on_signals()
    async with AsyncExitStack() as stack:
        zookeeper = plan.zookeeper or await _start_zookeeper(plan, stack)
        children: list[Child] = []
        stack.push_async_callback(stop_children, children)
        numbers = {plan.name(number): number for number in range(1, plan.brokers + 1)}
        ports = dict.fromkeys(numbers, 0)

        async def start(name: str) -> Child:
            arguments = plan.arguments(numbers[name], zookeeper, ports[name])
            return await Child.start(name, arguments, plan.log_format)

        async def restart(child: Child) -> Child:
            if child.ready_text:  # keep the port that the system chose
                ports[child.name] = int(child.ready_text.rpartition(":")[2])
            return await start(child.name)

        for name in numbers:  # one by one, so that those that have started are stopped
            children.append(await start(name))  # noqa: PERF401
        addresses = await wait_until_ready(children, stopping)
        if addresses is not None:
            _announce(children, addresses, zookeeper)
            await keep_running(children, restart, stopping)
    return 0


def _announce(children: Sequence[Child], addresses: Sequence[str], zookeeper: str) -> None:
    for child, address in zip(children, addresses, strict=True):
        echo_err(f"{child.name} listens on {address}, process {child.process.pid}")
    echo_err(f"ZooKeeper is at {zookeeper}. Ctrl-C stops everything.")
    click.echo(f"ready {' '.join(addresses)}")


async def _start_zookeeper(plan: ClusterPlan, stack: AsyncExitStack) -> str:
    server = ZooKeeperServer(plan.data / "zookeeper", port=_free_port())
    server.launch(dies_with_us=True)
    stack.callback(server.stop)
    await asyncio.to_thread(server.wait_until_ready)
    return server.address


def _free_port() -> int:
    """Return a free port for ZooKeeper; only our brokers need to know it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
