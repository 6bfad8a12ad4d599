"""The broker as a process: event loop, signals, exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping

import uvloop

from ottla.broker.addresses import BrokerAddresses, check_ports
from ottla.broker.broker import Broker
from ottla.common.config.metrics_keys import AUTO

log = logging.getLogger(__name__)

OnReady = Callable[[BrokerAddresses], None]


def run(raw: Mapping[str, str], *, ephemeral: bool = False, on_ready: OnReady | None = None) -> int:
    """Run a broker until SIGTERM or SIGINT; return the exit code.

    An ephemeral broker keeps its data in a directory of its own, gone when it stops. Metrics are served
    unless they are switched off.
    """
    _raise_file_limit()
    settings = {"ottla.metrics.listen": AUTO, **raw}
    folder = tempfile.mkdtemp(prefix="ottla-") if ephemeral else None
    if folder is not None:
        settings["log.dirs"] = folder
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            broker = Broker(settings)
            check_ports(broker.config.listener_list)
            return runner.run(_serve(broker, on_ready))
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _raise_file_limit() -> None:
    """Use as many descriptors as the system lets us: every connection and open segment takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(broker: Broker, on_ready: OnReady | None) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with broker, asyncio.TaskGroup() as tasks:
        # Everything made so far lives as long as the process: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        assert broker.addresses is not None
        log.info("ready: %s", ", ".join(str(address) for _, address in broker.addresses.listeners))
        if broker.addresses.metrics is not None:
            log.info("metrics: http://%s/metrics", broker.addresses.metrics)
        if on_ready is not None:
            on_ready(broker.addresses)
        watching = tasks.create_task(_stop_on_failure(broker, stopping))
        await stopping.wait()
        watching.cancel()
        log.info("stopping")
    return 1 if broker.failed.is_set() else 0


async def _stop_on_failure(broker: Broker, stopping: asyncio.Event) -> None:
    await broker.failed.wait()
    log.error("this broker stops, so that others take over its leadership")
    stopping.set()
