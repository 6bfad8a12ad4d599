"""Real brokers in the process of a test, on a thread of their own; ready in milliseconds.

    with LocalCluster(3) as cluster:
        producer = AnyClient(bootstrap_servers=cluster.bootstrap_servers)
        ...
        dead = cluster.kill(leader_of="orders")
        ...
        cluster.start(dead)
        cluster.topic("orders").assert_received(b"1", b"2")

They use real sockets and real files (in memory, unless they are given a folder), and share an in-memory
metadata store. All methods are thread-safe, and may be called from coroutines: the brokers have an event loop
of their own. Brokers keep their addresses over restarts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from ottla.broker.broker import Broker
from ottla.broker.data_directory import StartError
from ottla.client.event_loop_thread import EventLoopThread
from ottla.common.ids import TopicPartition
from ottla.log.disk import Bytes, RealDisk, RealFile
from ottla.metadata.image import ClusterImage
from ottla.metadata.memory import MemoryServer, MemoryStore
from ottla.testing.broker_process import free_port
from ottla.testing.topic_probe import TopicProbe

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 256 * 1024 * 1024
"""Containers often have 64 MiB there: too little for brokers."""


class NoSyncFile(RealFile):
    """A file that is left to the page cache."""

    __slots__ = ()

    def fsync(self) -> None:
        """Do nothing."""


class NoSyncDisk(RealDisk):
    """The operating system's files, never synced: a killed broker loses nothing, a power failure would."""

    def open(self, path: str, *, create: bool = False) -> NoSyncFile:
        """Open for reading and writing."""
        return NoSyncFile(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR)

    def open_read(self, path: str) -> NoSyncFile:
        """Open for reading only."""
        return NoSyncFile(path, os.O_RDONLY)

    def write_file(self, path: str, data: Bytes, *, sync: bool, mode: int = 0o644) -> None:
        """Write a small file from its beginning."""
        super().write_file(path, data, sync=False, mode=mode)

    def fsync_dir(self, path: str) -> None:
        """Do nothing."""

    def sync_all(self, path: str) -> None:
        """Do nothing."""


def memory_folder() -> Path:
    """Create a folder in memory, or else in the directory of temporary files."""
    return Path(tempfile.mkdtemp(prefix="ottla-test-", dir=MEMORY if _has_room(MEMORY) else None))


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ENOUGH_BYTES
    except OSError:
        return False


TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.01
PORTS_TRIED = 5
ENOUGH_REPLICAS = 3

QUICK = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "replica.fetch.wait.max.ms": "100",
}
"""Settings for tests: delays that matter only to large clusters are off."""

T = TypeVar("T")


class LocalBroker(Broker):
    """A broker that can be killed."""

    is_killed = False

    async def _leave(self) -> None:
        if not self.is_killed:
            await super()._leave()


class LocalCluster:
    """Brokers 1 to n in this process. Use it as a context manager.

    Every broker gets the settings, `{"num.partitions": "3"}` or `num_partitions=3`, and its own of the racks.
    Topics get three replicas by default, or as many as there are brokers; of three, two must be in sync. The
    listener has the name of its `security_protocol`, whose keys are among the settings; `listeners` in the
    settings are more of them. With several `directories`, each broker has as many log directories.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        folder: Path | None = None,
        settings: Mapping[str, object] | None = None,
        racks: Sequence[str] = (),
        security_protocol: str = "PLAINTEXT",
        directories: int = 1,
        **more_settings: object,
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if racks and len(racks) != brokers:
            raise ValueError(f"{brokers} brokers need as many racks, not {len(racks)}")
        self.racks = dict(enumerate(racks, start=1))
        self.settings = {**QUICK, **_replication(brokers), **dotted({**(settings or {}), **more_settings})}
        self.security_protocol = security_protocol
        self.node_ids = range(1, brokers + 1)
        self._directories = directories
        self._folder = folder
        self._is_ours = folder is None
        self._ports: dict[int, int] = {}
        self._brokers: dict[int, LocalBroker] = {}
        self._server = MemoryServer()

    # From the start to the end

    def __enter__(self) -> Self:
        self._folder = self._folder or memory_folder()
        self._loop_thread = EventLoopThread("ottla test brokers")
        try:
            for node_id in self.node_ids:
                self.start(node_id)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop every broker, end the thread, and remove the files if they were in memory."""
        try:
            self._loop_thread.run(self._close(), TIMEOUT_S)
        finally:
            self._loop_thread.close()
            if self._is_ours and self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    async def _close(self) -> None:
        while self._brokers:  # without moving leaders: no broker is left to lead
            await self._end(next(iter(self._brokers)), is_sudden=True)
        await asyncio.get_running_loop().shutdown_default_executor()

    # Brokers that come and go

    def start(self, node_id: int) -> None:
        """Start a broker, with its data and its address."""
        if node_id not in self.node_ids:
            raise ValueError(f"there is no broker {node_id}: they are {_named(self.node_ids)}")
        if node_id in self._brokers:
            raise ValueError(f"broker {node_id} is running")
        self._loop_thread.run(self._start(node_id), TIMEOUT_S)

    async def _start(self, node_id: int) -> None:
        assert self._folder is not None
        tries = PORTS_TRIED
        while True:
            tries -= 1
            port = self._ports.get(node_id) or free_port()
            own = f"{self.security_protocol}://127.0.0.1:{port}"
            more = self.settings.get("listeners")
            raw = {
                **self.settings,
                "node.id": str(node_id),
                "log.dirs": ",".join(str(each) for each in self.directories_of(node_id)),
                "listeners": own if more is None else f"{own},{more}",
            }
            if node_id in self.racks:
                raw["broker.rack"] = self.racks[node_id]
            self._server.heal(node_id)
            broker = LocalBroker(raw, store=MemoryStore(self._server, node_id), disk=NoSyncDisk())
            try:
                await broker.start()
            except StartError:
                if node_id in self._ports or not tries:
                    raise
                continue  # another test run has just taken the port
            self._ports[node_id] = port
            self._brokers[node_id] = broker
            return

    def stop(self, node_id: int) -> None:
        """Stop a broker cleanly: its leaderships move first."""
        self._check_running(node_id)
        self._loop_thread.run(self._end(node_id, is_sudden=False), TIMEOUT_S)

    def kill(
        self, node_id: int | None = None, *, leader_of: str | tuple[str, int] | TopicPartition | None = None
    ) -> int:
        """Kill a broker: its connections break, and the others detect its failure.

        Name it, or a topic (its partition 0) or partition that it leads. Return its node id.
        """
        if leader_of is not None:
            topic, partition = (leader_of, 0) if isinstance(leader_of, str) else leader_of
            node_id = self.leader_of(topic, partition)
        if node_id is None:
            raise ValueError("which broker? Give its number, or leader_of=TOPIC")
        self._check_running(node_id)
        self._loop_thread.run(self._end(node_id, is_sudden=True), TIMEOUT_S)
        return node_id

    async def _end(self, node_id: int, *, is_sudden: bool) -> None:
        broker = self._brokers.pop(node_id)
        if is_sudden:
            broker.is_killed = True
            await broker.server.stop(0)
            broker.peers.stop()
            self._server.cut(node_id)
            self._server.expire_node(node_id)
        await broker.stop()

    # What there is

    def directories_of(self, node_id: int) -> list[Path]:
        """Return the log directories of a broker."""
        assert self._folder is not None
        more = [self._folder / f"broker-{node_id}-{number}" for number in range(2, self._directories + 1)]
        return [self._folder / f"broker-{node_id}", *more]

    @property
    def running(self) -> list[int]:
        """The node ids of the running brokers."""
        return sorted(self._brokers)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, running or not: HOST:PORT, separated by commas."""
        return ",".join(f"127.0.0.1:{port}" for _, port in sorted(self._ports.items()))

    def address(self, node_id: int) -> str:
        """Return the address of a broker."""
        return f"127.0.0.1:{self._ports[node_id]}"

    def broker(self, node_id: int) -> Broker:
        """Return the broker; use it on its own event loop only."""
        self._check_running(node_id)
        return self._brokers[node_id]

    def topic(self, name: str) -> TopicProbe:
        """Return a probe of a topic; it need not exist yet."""
        return TopicProbe(self._loop_thread, self.bootstrap_servers, name)

    def create_topic(
        self, name: str, partitions: int = 1, *, replication_factor: int = -1, **configs: object
    ) -> TopicProbe:
        """Create a topic and wait until every partition has a leader."""
        topic = self.topic(name)
        topic.create(partitions, replication_factor, dotted(configs))
        self._wait_for(lambda image: _is_led(image, name, partitions), f"leaders of {name}")
        return topic

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return which running broker leads a partition; wait until there is one."""

        def leader(image: ClusterImage) -> int:
            found = image.partition(topic, partition)
            return found.leader if found is not None and found.leader in self._brokers else 0

        return self._wait_for(leader, f"a leader of {topic}-{partition}")

    def controller(self) -> int:
        """Return which running broker is the controller; wait until there is one."""
        return self._wait_for(
            lambda _: next((each for each, it in self._brokers.items() if it.controller.is_active), 0),
            "a controller",
        )

    def wait_until_in_sync(self) -> None:
        """Wait until every replica of every partition is in sync."""
        self._wait_for(_is_in_sync, "all replicas in sync")

    def _wait_for(self, condition: Callable[[ClusterImage], T], what: str) -> T:
        async def wait() -> T:
            deadline = asyncio.get_running_loop().time() + TIMEOUT_S
            while not (found := condition(self._image())):
                if asyncio.get_running_loop().time() > deadline:
                    raise TimeoutError(f"{what}: not within {TIMEOUT_S:g} s")
                await asyncio.sleep(POLL_INTERVAL_S)
            return found

        return self._loop_thread.run(wait())

    def _image(self) -> ClusterImage:
        """Return the newest image that a running broker has."""
        if not self._brokers:
            raise ValueError("no broker is running")
        return max((each.cluster.image for each in self._brokers.values()), key=lambda image: image.version)

    def _check_running(self, node_id: int) -> None:
        if node_id not in self._brokers:
            raise ValueError(f"broker {node_id} is not running; these are: {_named(self.running) or 'none'}")


def _replication(brokers: int) -> dict[str, str]:
    replicas = min(brokers, ENOUGH_REPLICAS)
    keys = (
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    )
    needed = "2" if replicas == ENOUGH_REPLICAS else "1"
    return {
        **dict.fromkeys(keys, str(replicas)),
        "min.insync.replicas": needed,
        "transaction.state.log.min.isr": needed,
    }


def _is_led(image: ClusterImage, topic: str, partitions: int) -> bool:
    found = [image.partition(topic, index) for index in range(partitions)]
    return all(each is not None and each.leader >= 0 for each in found)


def _is_in_sync(image: ClusterImage) -> bool:
    partitions = [each for topic in image.topics.values() for each in topic.partitions]
    return all(set(each.isr) == set(each.replicas) and not each.is_reassigning for each in partitions)


def dotted(settings: Mapping[str, object]) -> dict[str, str]:
    """Return settings as brokers read them: `num_partitions=3` is `num.partitions` with the text 3."""
    return {key if "." in key else key.replace("_", "."): _text(value) for key, value in settings.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(node_ids: list[int] | range) -> str:
    return ", ".join(map(str, node_ids))
