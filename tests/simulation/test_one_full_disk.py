"""A broker with two log directories, one of which is full: only what is in it is led elsewhere."""

from __future__ import annotations

import asyncio

from ottla.broker.broker import Broker
from ottla.common.ids import TopicPartition
from ottla.testing.history import Acked, Failed, History, Sent
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.plan import TWO_DISKS
from ottla.testing.simulation.producer import SimProducer

PARTITIONS = [TopicPartition("t", index) for index in range(4)]
SOON_S = 5.0


class Scene:
    """Brokers with two log directories each, a topic in both, and a producer with acks=all."""

    def __init__(self, nodes: int = 3) -> None:
        settings = {"replica.lag.time.max.ms": "60000", **TWO_DISKS}
        self.cluster = SimCluster(1, nodes, settings)
        self.history = History(self.cluster.loop.time)

    async def begin(self) -> None:
        for node in self.cluster.nodes.values():
            node.start()
        client = self.cluster.new_client()
        await client.process.spawn(client.create_topic("t", len(PARTITIONS), len(self.cluster.nodes)))
        await self.cluster.wait_until(lambda: all(len(self.isr(at)) == 3 for at in PARTITIONS), SOON_S)
        producer = self.cluster.new_client()
        producer.process.spawn(SimProducer(producer, self.history, "p", PARTITIONS).run())
        assert await self.acks_arrive(PARTITIONS)

    def isr(self, at: TopicPartition) -> set[int]:
        known = self.cluster.image.partition(*at)
        return set() if known is None else set(known.isr)

    def leader(self, at: TopicPartition) -> int:
        known = self.cluster.image.partition(*at)
        return -1 if known is None else known.leader

    def full(self, at: TopicPartition) -> tuple[int, ...]:
        known = self.cluster.image.partition(*at)
        return () if known is None else known.full

    def broker(self, node_id: int) -> Broker:
        broker = self.cluster.nodes[node_id].broker
        assert broker is not None
        return broker

    def directory_of(self, node_id: int, at: TopicPartition) -> str:
        log = self.broker(node_id).log_directories.logs[at]
        return log.path.rsplit("/", 1)[0]

    def fill(self, node_id: int, path: str) -> None:
        self.cluster.nodes[node_id].disk.limit(path)

    async def acks_arrive(self, partitions: list[TopicPartition], within_s: float = SOON_S) -> bool:
        """Wait for new acknowledgements from each of these partitions."""
        start = len(self.history.events)

        def arrived() -> bool:
            new = self.history.events[start:]
            sent = {each.number: each.place for each in new if isinstance(each, Sent)}
            acked = {sent.get(each.number) for each in new if isinstance(each, Acked)}
            return acked.issuperset(partitions)

        return await self.cluster.wait_until(arrived, within_s)


def test_others_lead_what_is_in_the_full_directory_and_nothing_else() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        node = scene.leader(PARTITIONS[0])
        full_path = scene.directory_of(node, PARTITIONS[0])
        inside = [at for at in PARTITIONS if scene.directory_of(node, at) == full_path]
        outside = [at for at in PARTITIONS if at not in inside]
        assert outside
        leaders = {at: scene.leader(at) for at in outside}
        scene.fill(node, full_path)
        assert await scene.cluster.wait_until(lambda: all(node not in scene.isr(at) for at in inside), SOON_S)
        assert all(scene.leader(at) not in (-1, node) for at in inside)
        assert await scene.acks_arrive(PARTITIONS)
        assert {at: scene.leader(at) for at in outside} == leaders
        assert all(node in scene.isr(at) for at in outside)
        assert scene.cluster.image.brokers[node].can_lead
        assert {at: scene.full(at) for at in PARTITIONS} == {
            at: (node,) if at in inside else () for at in PARTITIONS
        }
        scene.cluster.nodes[node].disk.heal()
        assert await scene.cluster.wait_until(lambda: all(node in scene.isr(at) for at in PARTITIONS), SOON_S)
        assert not any(scene.full(at) for at in PARTITIONS)
        assert await scene.acks_arrive(PARTITIONS)
        assert not [event for event in scene.history.events if isinstance(event, Failed)]

    scene.cluster.run(main())


def test_the_broker_drains_when_its_other_directory_is_full_too_and_comes_back_by_halves() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        node = scene.leader(PARTITIONS[0])
        disk = scene.cluster.nodes[node].disk
        first, second = scene.cluster.nodes[node].directories
        inside = [at for at in PARTITIONS if scene.directory_of(node, at) == first]
        scene.fill(node, first)
        assert await scene.cluster.wait_until(lambda: scene.full(inside[0]) == (node,), SOON_S)
        scene.fill(node, second)
        assert await scene.cluster.wait_until(lambda: not scene.cluster.image.brokers[node].can_lead, SOON_S)
        assert await scene.acks_arrive(PARTITIONS)
        disk.heal()
        disk.limit(first)
        assert await scene.cluster.wait_until(lambda: scene.cluster.image.brokers[node].can_lead, SOON_S)
        assert await scene.cluster.wait_until(lambda: scene.full(inside[0]) == (node,), SOON_S)
        disk.heal()
        assert await scene.cluster.wait_until(lambda: all(node in scene.isr(at) for at in PARTITIONS), SOON_S)

    scene.cluster.run(main())


def test_the_same_directory_full_on_every_broker_refuses_only_what_is_in_it() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        here = {node: scene.directory_of(node, PARTITIONS[0]) for node in scene.cluster.nodes}
        outside = [
            at
            for at in PARTITIONS
            if all(scene.directory_of(node, at) != path for node, path in here.items())
        ]
        for node, path in here.items():
            scene.fill(node, path)
        assert await scene.cluster.wait_until(lambda: len(scene.full(PARTITIONS[0])) >= 2, SOON_S)
        assert await scene.acks_arrive(outside)
        assert scene.leader(PARTITIONS[0]) >= 0
        assert scene.isr(PARTITIONS[0])
        for each in scene.cluster.nodes.values():
            each.disk.heal()
        assert await scene.acks_arrive(PARTITIONS, 4 * SOON_S)

    scene.cluster.run(main())


def test_a_replica_that_is_moved_out_of_the_full_directory_takes_part_again() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        node, at = scene.leader(PARTITIONS[0]), PARTITIONS[0]
        path = scene.directory_of(node, at)
        (other,) = (each for each in scene.cluster.nodes[node].directories if each != path)
        scene.fill(node, path)
        assert await scene.cluster.wait_until(lambda: node not in scene.isr(at), SOON_S)
        broker, process = scene.broker(node), scene.cluster.nodes[node].process
        assert process is not None

        async def move() -> None:
            broker.directory_moves.move(broker.partitions.get_replica(*at), other)

        await process.spawn(move())
        assert await scene.cluster.wait_until(lambda: scene.directory_of(node, at) == other, SOON_S)
        assert await scene.cluster.wait_until(lambda: node in scene.isr(at), SOON_S)
        assert scene.broker(node).log_directories.full

    scene.cluster.run(main())


def test_a_broker_can_be_stopped_while_one_directory_is_full() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        node, at = scene.leader(PARTITIONS[0]), PARTITIONS[0]
        scene.fill(node, scene.directory_of(node, at))
        assert await scene.cluster.wait_until(lambda: scene.leader(at) != node, SOON_S)
        async with asyncio.timeout(SOON_S):
            await scene.cluster.nodes[node].stop()
        assert scene.cluster.nodes[node].left_running == []
        assert await scene.acks_arrive(PARTITIONS)

    scene.cluster.run(main())
