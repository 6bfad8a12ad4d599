"""Several real brokers in one process: real sockets, one metadata store in memory, on a thread of their own.

For what needs more than one broker but neither ZooKeeper nor processes to kill.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.loop_thread import LoopThread

from ottla.broker.broker import Broker
from ottla.metadata.image import ClusterImage
from ottla.metadata.memory import MemoryServer, MemoryStore

T = TypeVar("T")
TIMEOUT_S = 20.0


class MemoryCluster:
    """Brokers 1 to n. Use it as a context manager; methods may be called from any thread."""

    def __init__(self, folder: Path, brokers: int = 3, racks: Sequence[str] = (), **settings: str) -> None:
        self.folder = folder
        self.settings = {key.replace("_", "."): value for key, value in settings.items()}
        self.racks = racks
        self.count = brokers
        self.brokers: dict[int, Broker] = {}
        self.server = MemoryServer(session_timeout_s=1.0)
        self._loop_thread = LoopThread("brokers")

    def __enter__(self) -> Self:
        self._loop_thread.start()
        for node_id in range(1, self.count + 1):
            self.start(node_id)
        return self

    def __exit__(self, *_: object) -> None:
        for node_id in list(self.brokers):
            self.stop(node_id)
        self._loop_thread.stop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the brokers' loop and return its result."""
        return self._loop_thread.run(work, TIMEOUT_S)

    def start(self, node_id: int) -> None:
        """Start a broker, on the data that it had."""
        raw = {
            "node.id": str(node_id),
            "log.dirs": str(self.folder / str(node_id)),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            **self.settings,
        }
        if self.racks:
            raw["broker.rack"] = self.racks[(node_id - 1) % len(self.racks)]

        async def start() -> None:
            self.brokers[node_id] = Broker(raw, store=MemoryStore(self.server, node_id))
            await self.brokers[node_id].start()

        self.run(start())

    def stop(self, node_id: int) -> None:
        """Stop a broker as an operator would."""
        self.run(self.brokers.pop(node_id).stop())

    def address(self, node_id: int) -> str:
        """Return where clients reach a broker."""
        addresses = self.brokers[node_id].addresses
        assert addresses is not None
        return str(addresses.listeners[0][1])

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers."""
        return ",".join(self.address(node_id) for node_id in self.brokers)

    @property
    def image(self) -> ClusterImage:
        """Return the cluster as its controller sees it."""
        return self.brokers[self.controller].cluster.image

    @property
    def controller(self) -> int:
        """Return the broker that is the controller."""
        return self.wait_for(
            lambda: next((n for n, each in self.brokers.items() if each.controller.is_active), 0)
        )

    @property
    def follower(self) -> int:
        """Return a broker that is not the controller."""
        controller = self.controller
        return next(node_id for node_id in self.brokers if node_id != controller)

    def wait_for(self, condition: Callable[[], T]) -> T:
        """Wait until something is so, and return it."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (found := condition()):
            assert time.monotonic() < deadline, "it did not come to pass in time"
            time.sleep(0.02)
        return found

    def wait_until_in_sync(self) -> None:
        """Wait until every replica of every partition is in sync, and nothing moves."""

        def is_in_sync() -> bool:
            partitions = [each for topic in self.image.topics.values() for each in topic.partitions]
            return all(set(each.isr) == set(each.replicas) and not each.is_reassigning for each in partitions)

        self.wait_for(is_in_sync)


def awaited(work: Callable[[], Awaitable[T]]) -> T:
    """Run a client's coroutine in the thread of the test."""

    async def run() -> T:
        return await work()

    return asyncio.run(run())
