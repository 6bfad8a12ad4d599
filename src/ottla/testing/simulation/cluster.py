"""Brokers, clients, a network and a metadata store on one simulated event loop.

cluster = SimCluster(seed=7, nodes=3)
cluster.run(main())            # main() starts nodes, lets time pass, injects faults, checks
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.memory import MemoryServer
from ottla.metadata.store import fold
from ottla.testing.simulation.client import SimClient
from ottla.testing.simulation.loop import PROCESS, SimLoop
from ottla.testing.simulation.network import SimNetwork
from ottla.testing.simulation.node import SimNode

T = TypeVar("T")

STORE_LATENCY_S = (0.0003, 0.006)
POLL_INTERVAL_S = 0.05
BURIAL_ROUNDS = 20


class SimCluster:
    """A simulated cluster."""

    def __init__(
        self,
        seed: int,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        session_timeout_s: float = 1.5,
        log_level: int = logging.ERROR,
    ) -> None:
        self.loop = SimLoop(seed)
        self.network = SimNetwork(self.loop)
        self.server = MemoryServer(session_timeout_s)
        self.server.latency = self.store_latency
        self.store_latency_s = STORE_LATENCY_S
        self.nodes = {
            node_id: SimNode(
                self.loop, self.server, node_id, {"broker.rack": f"r{node_id}", **(settings or {})}
            )
            for node_id in range(1, nodes + 1)
        }
        self.clients: list[SimClient] = []
        self.log: list[str] = []
        """What brokers logged, of this level and above."""
        self._log_level = log_level
        self._folded: ClusterImage = EMPTY

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a scenario to its end, and clean up."""
        watch = _LogWatch(self)
        logger = logging.getLogger("ottla")
        level, propagate = logger.level, logger.propagate
        logger.addHandler(watch)
        logger.setLevel(self._log_level)
        logger.propagate = False
        try:
            return self.loop.run(main)
        finally:
            self._bury()
            logger.removeHandler(watch)
            logger.setLevel(level)
            logger.propagate = propagate

    def new_client(self, rack: str = "") -> SimClient:
        """Return a client on a host of its own."""
        client = SimClient(self.loop, f"c{len(self.clients) + 1}", list(self.nodes), rack)
        self.clients.append(client)
        return client

    @property
    def image(self) -> ClusterImage:
        """The image of the metadata store, whatever brokers know."""
        entries = [each for each in self.server.entries if each.version > self._folded.version]
        self._folded = fold(self._folded, entries)
        return self._folded

    async def wait_until(self, is_so: Callable[[], bool], deadline_s: float) -> bool:
        """Wait for a condition; return whether it came true in time."""
        end_s = self.loop.now + deadline_s
        while not is_so():
            if self.loop.now >= end_s:
                return False
            await asyncio.sleep(POLL_INTERVAL_S)
        return True

    def store_latency(self) -> float:
        """Return how long the store takes for the next answer."""
        return self.loop.chance.uniform(*self.store_latency_s)

    def _bury(self) -> None:
        """Cancel all remaining tasks, those of dead processes too."""
        loop = self.loop
        loop.set_exception_handler(lambda *_: None)
        processes = [process for node in self.nodes.values() for process in node.ended]
        processes += [node.process for node in self.nodes.values() if node.process is not None]
        for process in (*processes, *(client.process for client in self.clients)):
            process.kill()
            process.bury()
        loop.run_until_complete(asyncio.sleep(0))
        for _ in range(BURIAL_ROUNDS):  # some do not heed the first call
            left = loop.living_tasks()
            if not left:
                break
            for task in left:
                # Before its first step, a task would leave what it was given to await unawaited: a request,
                # as a connection dispatches the next one when the task of the one before has ended.
                coroutine = cast("Coroutine[Any, Any, Any]", task.get_coro())
                if inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED:
                    task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        loop.close()


class _LogWatch(logging.Handler):
    """Collects what brokers log."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__()
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        process = PROCESS.get()
        if process is not None and process.is_dead:
            return
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({record.exc_info[1]!r})"
        where = process.host if process is not None else "test"
        self._cluster.log.append(
            f"{self._cluster.loop.now:.3f} s {where} {record.levelname} {record.name}: {text}"
        )
