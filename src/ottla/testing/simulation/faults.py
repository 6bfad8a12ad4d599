"""The faults of a simulation, each with a start and an end, and their execution.

plan.py draws them from a seed.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ottla.broker.settings import network_limits
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.metadata.memory import MemorySnapshot
from ottla.protocol.errors import KafkaError
from ottla.testing.simulation.client import PORT, SimClient
from ottla.testing.simulation.cluster import STORE_LATENCY_S, SimCluster
from ottla.testing.simulation.loop import SimProcess
from ottla.testing.simulation.network import DELAY_S
from ottla.testing.simulation.node import RECOVERY_S, SimNode
from ottla.testing.simulation.operator import SimOperator

# Idle connections that fill a simulated broker's connection limit.

RESERVE = 12
"""Places for brokers; four or five are in use by each other broker."""
CROWD = 3 * RESERVE


class IdleConnections:
    """Idle clients on a host of their own; `leave` closes their connections."""

    def __init__(self, cluster: SimCluster) -> None:
        self._loop = cluster.loop
        self._process = SimProcess(cluster.loop, "crowd")
        self._there: dict[str, list[asyncio.Transport]] = {}

    def fill(self, node: SimNode) -> None:
        """Fill the connection limit, including some of those reserved for brokers."""
        if node.broker is not None:
            server = node.broker.server
            server.change_limits(replace(server.limits, max_connections=0, broker_reserve=RESERVE))
            self._there.setdefault(node.host, [])
            self._process.spawn(self._connect(node.host))

    def leave(self, node: SimNode) -> None:
        """Close the idle connections."""
        for each in self._there.pop(node.host, ()):
            each.close()
        if node.broker is not None:
            node.broker.server.change_limits(network_limits(node.broker.config))

    async def _connect(self, host: str) -> None:
        for _ in range(CROWD):
            try:
                transport, _ = await self._loop.create_connection(asyncio.Protocol, host, PORT)
            except OSError:
                return
            if host not in self._there:
                transport.close()
                return
            self._there[host].append(transport)


HOUR_MS = 3_600_000
STARVED_CALLBACK_S = (0.0005, 0.002, 0.005)
"""How long a callback may take on a node that is starved of CPU time."""


LEADER, FOLLOWER, CONTROLLER, COORDINATOR = 0, -1, -2, -3
"""Nodes that are chosen when the fault begins: by the leader of the first partition, the controller, or a
coordinator.
"""


class Fault(NamedTuple):
    """From `at_s` on, for `for_s` seconds, `kind` happens to `node` (and `other`)."""

    at_s: float
    for_s: float
    kind: str
    node: int
    other: int = 0

    def __str__(self) -> str:
        names = {LEADER: "leader", FOLLOWER: "follower", CONTROLLER: "controller", COORDINATOR: "coordinator"}
        who = f"{names.get(self.node, self.node)}" + (f"-{self.other}" if self.other else "")
        return f"{self.at_s:.3f}-{self.at_s + self.for_s:.3f} s {self.kind} {who}"


class FaultMaker:
    """Executes faults on a cluster."""

    def __init__(self, cluster: SimCluster, operator: SimClient, topic: str) -> None:
        self._cluster = cluster
        self._operator = operator
        self._topic = topic
        self._crowd = IdleConnections(cluster)
        self._actions: dict[str, tuple[Callable[[Fault], None], Callable[[Fault], None]]] = {
            "kill": (lambda f: self._node(f).kill(), self._start),
            "power failure": (lambda f: self._node(f).kill(power_cut=True), self._start),
            "pause": (lambda f: self._node(f).pause(), lambda f: self._node(f).resume()),
            "starve": (self._starve, lambda f: self._node(f).starve(0)),
            "restart": (self._stop, self._start),
            "cut": (lambda f: self._cut(f, one_way=False), self._heal),
            "cut one way": (lambda f: self._cut(f, one_way=True), self._heal),
            "isolate": (self._isolate, self._rejoin),
            "cut from clients": (self._cut_clients, self._heal_clients),
            "cut from store": (lambda f: self._node(f).cut_store(), lambda f: self._node(f).heal_store()),
            "lose answers": (lambda f: self._lose(f, True), lambda f: self._lose(f, False)),
            "reset": (self._reset, lambda f: None),
            "slow": (self._slow_network, self._normal_network),
            "slow store": (self._slow_store, self._normal_store),
            "clock": (self._jump, lambda f: None),
            "full disk": (self._fill_disk, lambda f: self._node(f).disk.heal()),
            "broken disk": (self._break_disk, self._repair_disk),
            "disk replaced": (self._replace_disk, self._start),
            "one disk full": (self._fill_one_disk, lambda f: self._node(f).disk.heal()),
            "one disk dead": (self._break_one_disk, self._repair_disk),
            "one disk missing": (self._miss_one_disk, self._repair_disk),
            "one disk replaced": (self._replace_one_disk, self._start),
            "move replicas": (self._move_replicas, lambda f: None),
            "slow recovery": (self._recover_slowly, self._recover_as_usual),
            "reassign": (self._reassign, self._stop_reassigning),
            "elect leaders": (self._elect, lambda f: None),
            "store rolled back": (self._roll_back, self._put_newest_back),
            "connections exhausted": (self._exhaust, lambda f: self._crowd.leave(self._node(f))),
        }
        assert self._actions.keys() == WEIGHTS.keys()
        self._stops: dict[int, asyncio.Task[None]] = {}
        self._old_store = cluster.server.snapshot()
        self._newest_store: MemorySnapshot | None = None
        self._operations: list[asyncio.Task[None]] = []

    async def run(self, faults: Sequence[Fault]) -> None:
        """Start and stop the faults on time."""
        steps = [(each.at_s, 0, number) for number, each in enumerate(faults)]
        steps += [(each.at_s + each.for_s, 1, number) for number, each in enumerate(faults)]
        known: dict[int, Fault] = {}
        for at_s, phase, number in sorted(steps):
            await asyncio.sleep(max(0.0, at_s - self._cluster.loop.now))
            if phase == 0:
                known[number] = self._resolved(faults[number])
            self._actions[faults[number].kind][phase](known[number])

    async def heal_everything(self) -> None:
        """End all faults: every node runs, every link works, no operator is active."""
        cluster = self._cluster
        if self._stops:
            await asyncio.wait(list(self._stops.values()))
        cluster.network.heal()
        cluster.network.delay_s, cluster.store_latency_s = DELAY_S, STORE_LATENCY_S
        for node_id, node in cluster.nodes.items():
            cluster.server.lose_responses(node_id, False)
            node.disk.heal()
            self._crowd.leave(node)
            node.resume()
            node.starve(0)
            node.heal_store()
            self._restart_without_a_directory(node)
            node.start()
        if self._operations:
            await asyncio.wait(self._operations)

    def _restart_without_a_directory(self, node: SimNode) -> None:
        """Kill a broker that runs without one of its directories: it uses a repaired one after a restart.

        A replaced disk that was full at the start is such a directory (seed 514 of the disks).
        """
        if node.broker is not None and node.broker.log_directories.offline_reasons:
            node.kill()

    def _resolved(self, fault: Fault) -> Fault:
        """Return the fault with the node that it means now."""
        if fault.node > 0:
            return fault
        topics = self._cluster.image.topics
        topic = next(iter(topics.values()), None)
        if fault.node == COORDINATOR:
            topic = topics.get(TRANSACTION_STATE_TOPIC) or topics.get(CONSUMER_OFFSETS_TOPIC, topic)
        session = self._cluster.server.controller
        if fault.node == CONTROLLER and session is not None:
            return fault._replace(node=session.node_id)
        leader = topic.partitions[0].leader if topic is not None and topic.partitions else -1
        if leader < 0:
            return fault._replace(node=1)
        replicas = topic.partitions[0].replicas if topic is not None else ()
        others = [each for each in self._cluster.nodes if each in replicas and each != leader] or [leader]
        chance = self._cluster.loop.chance
        node = leader if fault.node in (LEADER, COORDINATOR) else chance.choice(others)
        return fault._replace(node=node, other=chance.choice(others) if fault.other == node else fault.other)

    def _node(self, fault: Fault) -> SimNode:
        return self._cluster.nodes[fault.node]

    def _start(self, fault: Fault) -> None:
        if fault.node not in self._stops:
            self._node(fault).start()

    def _stop(self, fault: Fault) -> None:
        """Stop in good order; the start waits for that."""
        node = self._node(fault)
        if not node.is_up or fault.node in self._stops:
            return

        async def stop_and_start() -> None:
            await node.stop()
            await asyncio.sleep(fault.for_s)
            node.start()
            del self._stops[fault.node]

        self._stops[fault.node] = self._cluster.loop.create_task(stop_and_start())

    def _starve(self, fault: Fault) -> None:
        self._node(fault).starve(self._cluster.loop.chance.choice(STARVED_CALLBACK_S))

    def _hosts(self, fault: Fault) -> tuple[str, str]:
        return self._cluster.nodes[fault.node].host, self._cluster.nodes[fault.other].host

    def _cut(self, fault: Fault, *, one_way: bool) -> None:
        self._cluster.network.cut(*self._hosts(fault), one_way=one_way)

    def _heal(self, fault: Fault) -> None:
        self._cluster.network.heal(*self._hosts(fault))

    def _isolate(self, fault: Fault) -> None:
        for other in self._cluster.nodes.values():
            if other.node_id != fault.node:
                self._cluster.network.cut(self._node(fault).host, other.host)

    def _rejoin(self, fault: Fault) -> None:
        for other in self._cluster.nodes.values():
            if other.node_id != fault.node:
                self._cluster.network.heal(self._node(fault).host, other.host)

    def _cut_clients(self, fault: Fault) -> None:
        for client in self._cluster.clients:
            self._cluster.network.cut(self._node(fault).host, client.process.host)

    def _heal_clients(self, fault: Fault) -> None:
        for client in self._cluster.clients:
            self._cluster.network.heal(self._node(fault).host, client.process.host)

    def _lose(self, fault: Fault, lost: bool) -> None:
        self._cluster.server.lose_responses(fault.node, lost)

    def _reset(self, fault: Fault) -> None:
        self._cluster.network.reset_some(0.6, self._node(fault).host)

    def _exhaust(self, fault: Fault) -> None:
        """Fill the table of connections; whose connection breaks then has to find a place again."""
        self._crowd.fill(self._node(fault))
        self._reset(fault)

    def _slow_network(self, _: Fault) -> None:
        self._cluster.network.delay_s = (0.001, 0.15)

    def _normal_network(self, _: Fault) -> None:
        self._cluster.network.delay_s = DELAY_S

    def _slow_store(self, _: Fault) -> None:
        self._cluster.store_latency_s = (0.01, 0.6)

    def _normal_store(self, _: Fault) -> None:
        self._cluster.store_latency_s = STORE_LATENCY_S

    def _fill_disk(self, fault: Fault) -> None:
        disk = self._node(fault).disk
        disk.capacity_bytes = disk.used_bytes() + self._cluster.loop.chance.randint(0, 2_000)

    def _fill_one_disk(self, fault: Fault) -> None:
        self._node(fault).disk.limit(self._one_directory(fault), self._cluster.loop.chance.randint(0, 2_000))

    def _break_disk(self, fault: Fault) -> None:
        kind = self._cluster.loop.chance.choice(("write", "fsync"))
        self._node(fault).disk.fail(kind, errno.EIO, path_part=self._topic)

    def _replace_disk(self, fault: Fault) -> None:
        node = self._node(fault)
        node.kill()
        node.disk.replace()

    def _one_directory(self, fault: Fault) -> str:
        return self._cluster.loop.chance.choice(self._node(fault).directories)

    def _break_one_disk(self, fault: Fault) -> None:
        """Nothing can be written in one directory any more."""
        path = f"{self._one_directory(fault)}/"
        for kind in ("write", "fsync", "fsync_dir", "truncate"):
            self._node(fault).disk.fail(kind, errno.EIO, times=1 << 30, path_part=path)

    def _miss_one_disk(self, fault: Fault) -> None:
        """The broker is started without one directory."""
        node = self._node(fault)
        if fault.node in self._stops:
            return
        node.kill()
        node.disk.fail("open", errno.EIO, times=1 << 30, path_part=f"{self._one_directory(fault)}/")
        node.start()

    def _replace_one_disk(self, fault: Fault) -> None:
        node = self._node(fault)
        node.kill()
        node.disk.replace(self._one_directory(fault))

    def _move_replicas(self, fault: Fault) -> None:
        """Move the replicas of a broker between its directories."""
        node, chance = self._node(fault), self._cluster.loop.chance
        broker, process = node.broker, node.process
        if broker is None or process is None:
            return

        async def move() -> None:
            for partition in broker.partitions:
                try:
                    broker.directory_moves.move(partition, chance.choice(node.directories))
                except KafkaError:
                    continue  # the directory is offline

        process.spawn(move(), f"move replicas of {node.node_id}")

    async def put_disks_back(self, nodes: Iterable[int]) -> None:
        """Give the replaced disks back to the brokers."""
        for node_id in nodes:
            node = self._cluster.nodes[node_id]
            node.kill()
            node.disk.put_back()
            node.start()

    def _roll_back(self, _: Fault) -> None:
        """Restore the store from a snapshot of when the faults began."""
        self._newest_store = self._cluster.server.snapshot()
        self._cluster.server.restore(self._old_store)

    def _put_newest_back(self, _: Fault) -> None:
        if self._newest_store is not None:
            self._cluster.server.restore(self._newest_store)
            self._newest_store = None

    def _recover_slowly(self, fault: Fault) -> None:
        """Kill and start; the session ends while the logs are recovered, or just after."""
        node, chance = self._node(fault), self._cluster.loop.chance
        if fault.node in self._stops:
            return
        node.kill()
        node.recovery_s = (fault.for_s, fault.for_s)
        node.start()
        ends_s = max(0.0, fault.for_s + chance.uniform(-0.2, 0.03))
        self._cluster.loop.call_later(ends_s, self._cluster.server.expire_node, fault.node)

    def _recover_as_usual(self, fault: Fault) -> None:
        self._node(fault).recovery_s = RECOVERY_S

    def _repair_disk(self, fault: Fault) -> None:
        """The broker has taken its disk offline until it is restarted."""
        node = self._node(fault)
        node.disk.heal()
        if node.is_up and fault.node not in self._stops:
            node.kill()
            node.start()

    def _reassign(self, fault: Fault) -> None:
        topic = self._cluster.image.topics.get(self._topic)
        if topic is not None and topic.partitions:
            chance, nodes = self._cluster.loop.chance, list(self._cluster.nodes)
            partition = chance.choice(topic.partitions)
            replicas = chance.sample(nodes, min(len(nodes), chance.choice((2, 3, 3))))
            place = TopicPartition(self._topic, partition.index)
            self._operate(SimOperator(self._operator).reassign(place, replicas))

    def _stop_reassigning(self, fault: Fault) -> None:
        """Cancel the reassignment, now and then."""
        topic = self._cluster.image.topics.get(self._topic)
        for partition in topic.partitions if topic is not None else ():
            if partition.is_reassigning and self._cluster.loop.chance.random() < 0.3:
                place = TopicPartition(self._topic, partition.index)
                self._operate(SimOperator(self._operator).reassign(place, None))

    def _elect(self, fault: Fault) -> None:
        self._operate(SimOperator(self._operator).elect_preferred_leaders())

    def _operate(self, work: Coroutine[None, None, None]) -> None:
        self._operations.append(self._operator.process.spawn(work))

    def _jump(self, fault: Fault) -> None:
        self._node(fault).clock.skew_ms = self._cluster.loop.chance.choice((-HOUR_MS, 0, HOUR_MS))


WEIGHTS = {
    "kill": 4,
    "power failure": 2,
    "pause": 3,
    "restart": 2,
    "cut": 3,
    "cut one way": 3,
    "isolate": 3,
    "cut from clients": 1,
    "cut from store": 3,
    "lose answers": 1,
    "reset": 2,
    "slow": 1,
    "slow store": 1,
    "clock": 1,
    "full disk": 1,
    "broken disk": 1,
    "disk replaced": 2,
    "slow recovery": 2,
    "reassign": 2,
    "elect leaders": 1,
    "connections exhausted": 1,
    "starve": 0,
    "one disk full": 0,
    "one disk dead": 0,
    "one disk missing": 0,
    "one disk replaced": 0,
    "move replicas": 0,
    "store rolled back": 0,
}
"""Every kind of fault, and how often it is drawn. Nodes are starved for longer, and some at a time; the store
is rolled back alone; only brokers of the workload `disks` have two disks.
"""

PAIRED = frozenset({"cut", "cut one way"})
