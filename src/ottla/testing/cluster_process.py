"""A cluster of processes: a ZooKeeper and several brokers, which tests kill, pause and restart.

    with ClusterProcess(tmp_path, brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        ...
        leader = cluster.leader_of("orders", 0)
        cluster.kill(leader)                     # SIGKILL: no flush
        cluster.wait_for_leader("orders", 0, other_than=leader)
        cluster.start(leader)
        cluster.wait_until_in_sync()             # every partition has all of its replicas back

Brokers have the node ids 1, 2, ... and keep their addresses and their data over restarts. Sessions are short
(2 s), so that a dead broker is fenced soon.

    with ZooKeeperProcess(tmp_path / "zookeeper") as zookeeper:
        store = ZooKeeperStore(ZooKeeperSettings(zookeeper.address))
        ...
        zookeeper.pause()      # SIGSTOP
        zookeeper.resume()
        zookeeper.kill()
        zookeeper.start()      # the same data, the same address, the same sessions

`view_of` asks one broker for its view of the cluster over a blocking socket: each request has a connection of
its own and a short timeout, because brokers may be dead, paused or cut off.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.metadata.v9.response import MetadataResponse

from ottla.broker.zookeeper_server import Member, ZooKeeperServer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import (
    RequestHeader,
    decode_response_header,
    encode_frame,
    encode_request_header,
)
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.testing.broker_process import BrokerProcess, free_port

_started: weakref.WeakSet[ZooKeeperProcess] = weakref.WeakSet()


class ZooKeeperProcess(ZooKeeperServer):
    """A ZooKeeper server on a free port of the loopback interface."""

    def __init__(
        self,
        data: Path,
        *,
        settings: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            data,
            host=host,
            port=port or free_port(),
            settings=settings,
            environment=environment,
            wrapper=wrapper,
        )

    def launch(self, *, dies_with_us: bool = False) -> None:
        """Start the process; it does not outlive this one."""
        _started.add(self)
        super().launch(dies_with_us=dies_with_us)

    def pause(self) -> None:
        """Pause the process (SIGSTOP)."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process (SIGCONT)."""
        self._running().send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        if not self.is_running:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def ensemble(data: Path, size: int) -> list[ZooKeeperProcess]:
    """Return the servers of an ensemble, not yet started: `launch` all, then `wait_until_ready`."""
    members = [Member(number, "127.0.0.1", free_port(), free_port()) for number in range(1, size + 1)]
    servers = []
    for member in members:
        server = ZooKeeperProcess(data / f"zookeeper-{member.number}")
        server.members, server.number = tuple(members), member.number
        servers.append(server)
    return servers


@atexit.register
def _kill_what_is_left() -> None:
    for server in tuple(_started):
        server.kill()


VERSION = 9
TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition, as a broker sees it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it has a leader and every replica is in sync."""
        return self.leader >= 0 and set(self.in_sync) == set(self.replicas)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster, as one of its brokers sees it."""

    controller: int
    brokers: Mapping[int, str]
    """The address of each."""
    partitions: Mapping[tuple[str, int], PartitionView]

    @property
    def is_whole(self) -> bool:
        """Whether every partition has a leader and all its replicas in sync."""
        return all(each.is_whole for each in self.partitions.values())


def view_of(address: str, timeout_s: float = TIMEOUT_S) -> ClusterView:
    """Return what the broker at `address` knows; OSError if it does not answer in time."""
    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    header = RequestHeader(ApiKey.METADATA, VERSION, 1, "cluster-view")
    body = request_encoder(ApiKey.METADATA, VERSION, VERSION)(request)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout_s) as connection:
        connection.sendall(encode_frame(encode_request_header(header), body))
        answer = _receive(connection, int.from_bytes(_receive(connection, 4), "big"))
    _, position = decode_response_header(answer, ApiKey.METADATA, VERSION)
    response = response_decoder(ApiKey.METADATA, VERSION, VERSION)(answer, position)
    assert isinstance(response, MetadataResponse)
    return _view(response)


def _view(response: MetadataResponse) -> ClusterView:
    return ClusterView(
        controller=response.controller_id,
        brokers={each.node_id: f"{each.host}:{each.port}" for each in response.brokers},
        partitions={
            (str(topic.name), each.partition_index): PartitionView(
                each.leader_id, each.leader_epoch, tuple(each.replica_nodes), tuple(each.isr_nodes)
            )
            for topic in response.topics
            for each in topic.partitions
        },
    )


def _receive(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        if not (chunk := connection.recv(count - len(parts))):
            raise ConnectionError("the broker closed the connection in the middle of its answer")
        parts += chunk
    return bytes(parts)


SESSION_TIMEOUT_MS = 2_000
WITHIN_S = 30.0
POLL_INTERVAL_S = 0.05


class ClusterNotAsExpected(AssertionError):
    """The cluster did not reach the expected state in time."""


class ClusterProcess:
    """A ZooKeeper and its brokers, as users run them.

    `settings` are for every broker, `settings_of` for some; `arguments` and `environment` are passed on to
    every `BrokerProcess`.
    """

    def __init__(
        self,
        data: Path,
        *,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        settings_of: Mapping[int, Mapping[str, str]] | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.zookeeper = self.make_zookeeper(data / "zookeeper")
        replicas = str(min(brokers, 3))
        common = {
            "zookeeper.session.timeout.ms": str(session_timeout_ms),
            "zookeeper.connection.timeout.ms": "20000",
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "5",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
        self.brokers = {
            number: self.make_broker(
                number,
                settings={**common, **(settings_of or {}).get(number, {})},
                arguments=["--node-id", str(number), "--zookeeper", self.zookeeper.address, *arguments],
                environment=dict(environment or {}),
            )
            for number in range(1, brokers + 1)
        }

    def make_zookeeper(self, data: Path) -> ZooKeeperProcess:
        """Return the ZooKeeper, not yet started; may be overridden."""
        return ZooKeeperProcess(data, settings={"tickTime": "200"})

    def make_broker(
        self, number: int, settings: dict[str, str], arguments: list[str], environment: dict[str, str]
    ) -> BrokerProcess:
        """Return a broker, not yet started; may be overridden."""
        return BrokerProcess(
            self.data / f"broker-{number}", settings=settings, arguments=arguments, environment=environment
        )

    # Running it

    def start_all(self) -> Self:
        """Start ZooKeeper and every broker that does not run."""
        if not self.zookeeper.is_running:
            self.zookeeper.start()
        self.start_together(number for number, broker in self.brokers.items() if not broker.is_running)
        return self

    def start_together(self, numbers: Iterable[int]) -> None:
        """Start several brokers at the same time; return when all are ready."""
        with ThreadPoolExecutor() as pool:
            for starting in [pool.submit(self.start, number) for number in numbers]:
                starting.result()

    def stop_all(self) -> None:
        """Stop the brokers one after the other, cleanly, then ZooKeeper."""
        for broker in self.running():
            broker.stop()
        self.zookeeper.stop()

    def kill_all(self) -> None:
        """Kill everything."""
        for broker in self.brokers.values():
            broker.kill()
        self.zookeeper.kill()

    def start(self, number: int) -> BrokerProcess:
        """Start one broker on its data and address of before."""
        return self.brokers[number].start()

    def stop(self, number: int) -> None:
        """Stop one broker cleanly: its leaderships move first."""
        self.brokers[number].stop()

    def restart(self, number: int) -> None:
        """Stop one broker cleanly and start it again."""
        self.brokers[number].restart()

    def kill(self, number: int) -> None:
        """Kill one broker (SIGKILL)."""
        self.brokers[number].kill()

    def pause(self, number: int) -> None:
        """Pause one broker (SIGSTOP)."""
        os.kill(self.brokers[number].pid, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Resume a paused broker (SIGCONT)."""
        os.kill(self.brokers[number].pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for number, broker in self.brokers.items():
                error.add_note(f"broker {number} said at last:\n{broker.stderr_tail(30)}")
            self.kill_all()
        else:
            try:
                self.stop_all()
            finally:
                self.kill_all()

    # Looking at it

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, to give to clients."""
        return ",".join(broker.listen for broker in self.brokers.values())

    def running(self) -> list[BrokerProcess]:
        """Return the brokers that run."""
        return [broker for broker in self.brokers.values() if broker.is_running]

    def view(self, asked: int | None = None) -> ClusterView:
        """Return the cluster as one broker sees it: the one `asked`, else the first that answers."""
        candidates = self.running() if asked is None else [self.brokers[asked]]
        refused: OSError | None = None
        for broker in candidates:
            try:
                return view_of(broker.listen)
            except OSError as error:
                refused = error
        raise ClusterNotAsExpected("no broker answers") from refused

    def partition(self, topic: str, partition: int) -> PartitionView:
        """Return one partition as the first broker that answers sees it."""
        return self.view().partitions[topic, partition]

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the leader of a partition, once it has one."""
        return self.wait_for_leader(topic, partition)

    def controller(self) -> int:
        """Return the broker that is the controller, as the first that answers sees it."""
        return self.view().controller

    def is_in_sync(self) -> bool:
        """Return whether all brokers see each other, and all replicas of all partitions in sync."""
        try:
            views = [view_of(broker.listen) for broker in self.running()]
        except OSError:
            return False
        everyone = set(self.brokers)
        return len(views) == len(everyone) and all(
            set(view.brokers) == everyone and view.is_whole and view.controller in everyone for view in views
        )

    def wait_until_in_sync(self, within_s: float = WITHIN_S) -> None:
        """Return when `is_in_sync`; raise ClusterNotAsExpected with what is wrong if that takes too long."""
        wait_until(self.is_in_sync, within_s, self._problems)

    def wait_for_leader(
        self, topic: str, partition: int, *, other_than: int | None = None, within_s: float = WITHIN_S
    ) -> int:
        """Return the leader of a partition, once a running broker names one (`other_than` the former)."""
        found: list[int] = []

        def has_leader() -> bool:
            for number, broker in self.brokers.items():
                if number == other_than or not broker.is_running:
                    continue
                try:
                    leader = view_of(broker.listen).partitions[topic, partition].leader
                except (OSError, KeyError):
                    continue
                if leader not in (-1, other_than):
                    found.append(leader)
                    return True
            return False

        wait_until(has_leader, within_s, lambda: f"{topic}-{partition} has no leader: {self._problems()}")
        return found[-1]

    def _problems(self) -> str:
        lines = []
        for number, broker in self.brokers.items():
            if not broker.is_running:
                lines.append(f"broker {number} does not run")
                continue
            try:
                view = view_of(broker.listen)
            except OSError as error:
                lines.append(f"broker {number} does not answer: {error}")
                continue
            partial = {place: each for place, each in view.partitions.items() if not each.is_whole}
            lines.append(
                f"broker {number} sees brokers {sorted(view.brokers)}, controller {view.controller}, "
                f"{len(partial)} partitions not in sync: {_some(partial.items())}"
            )
        return "; ".join(lines)


def wait_until(
    condition: Callable[[], bool], within_s: float = WITHIN_S, otherwise: Callable[[], str] | None = None
) -> None:
    """Return when `condition` holds; if it does not in time, raise ClusterNotAsExpected (see `otherwise`)."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterNotAsExpected(
                f"not within {within_s:g} s: {otherwise() if otherwise else condition}"
            )
        time.sleep(POLL_INTERVAL_S)


def _some(items: Iterable[object]) -> str:
    return ", ".join(str(each) for _, each in zip(range(5), items, strict=False))
