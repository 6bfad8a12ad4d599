"""A broker of a simulated cluster whose disk is full, or fails: the others continue, and it returns."""

from __future__ import annotations

import asyncio
import errno

from ottla.common.ids import TopicPartition
from ottla.testing.history import Acked, Failed, History
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.operator import SimOperator
from ottla.testing.simulation.producer import SimProducer

PLACE = TopicPartition("t", 0)
SOON_S = 5.0
LAG_MS = 60_000
"""Far longer than any of this takes: no replica falls out of sync by itself."""


class Scene:
    """Three brokers and a producer with acks=all."""

    def __init__(self, nodes: int = 3, lag_ms: int = LAG_MS, replicas: int | None = None) -> None:
        self.replicas = replicas or nodes
        self.cluster = SimCluster(1, nodes, {"replica.lag.time.max.ms": str(lag_ms)})
        self.history = History(self.cluster.loop.time)

    async def begin(self) -> None:
        for node in self.cluster.nodes.values():
            node.start()
        client = self.cluster.new_client()
        await client.process.spawn(client.create_topic("t", 1, self.replicas))
        await self.cluster.wait_until(lambda: len(self.isr) == self.replicas, SOON_S)
        producer = self.cluster.new_client()
        producer.process.spawn(SimProducer(producer, self.history, "p", [PLACE]).run())
        assert await self.acks_arrive()

    @property
    def isr(self) -> set[int]:
        known = self.cluster.image.partition(*PLACE)
        return set() if known is None else set(known.isr)

    @property
    def elr(self) -> set[int]:
        known = self.cluster.image.partition(*PLACE)
        return set() if known is None else set(known.elr)

    @property
    def leader(self) -> int:
        known = self.cluster.image.partition(*PLACE)
        return -1 if known is None else known.leader

    def fill_disk(self, node_id: int) -> None:
        disk = self.cluster.nodes[node_id].disk
        disk.capacity_bytes = disk.used_bytes()

    async def acks_arrive(self, within_s: float = SOON_S) -> bool:
        before = self._acks()
        return await self.cluster.wait_until(lambda: self._acks() > before + 5, within_s)

    def _acks(self) -> int:
        return sum(isinstance(event, Acked) for event in self.history.events)


def test_others_lead_while_the_disk_of_a_leader_is_full() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        leader = scene.leader
        scene.fill_disk(leader)
        assert await scene.cluster.wait_until(lambda: scene.leader != leader, SOON_S)
        assert await scene.acks_arrive()
        assert leader not in scene.isr
        scene.cluster.nodes[leader].disk.heal()
        assert await scene.cluster.wait_until(lambda: leader in scene.isr, SOON_S)
        assert await scene.acks_arrive()

    scene.cluster.run(main())


def test_producers_continue_when_the_leader_whose_disk_was_full_leads_again() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        leader = scene.leader
        scene.fill_disk(leader)
        assert await scene.cluster.wait_until(lambda: scene.leader != leader, SOON_S)
        scene.cluster.nodes[leader].disk.heal()
        assert await scene.cluster.wait_until(lambda: leader in scene.isr, SOON_S)
        assert await scene.acks_arrive()
        operator = scene.cluster.new_client()
        await operator.process.spawn(SimOperator(operator).elect_preferred_leaders())
        assert await scene.cluster.wait_until(lambda: scene.leader == leader, SOON_S)
        assert await scene.acks_arrive(4 * SOON_S)
        assert not [event for event in scene.history.events if isinstance(event, Failed)]

    scene.cluster.run(main())


def test_producers_do_not_wait_for_a_follower_whose_disk_is_full() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        leader = scene.leader
        follower = next(each for each in scene.cluster.nodes if each != leader)
        scene.fill_disk(follower)
        assert await scene.cluster.wait_until(lambda: follower not in scene.isr, SOON_S)
        assert await scene.acks_arrive()
        assert scene.leader == leader
        scene.cluster.nodes[follower].disk.heal()
        assert await scene.cluster.wait_until(lambda: follower in scene.isr, SOON_S)

    scene.cluster.run(main())


def test_a_leader_that_was_alone_when_its_disk_filled_leaves_with_the_first_that_can_lead() -> None:
    scene = Scene(replicas=2)

    async def main() -> None:
        await scene.begin()
        leader = scene.leader
        (follower,) = scene.isr - {leader}
        scene.cluster.nodes[follower].kill()
        assert await scene.cluster.wait_until(lambda: scene.isr == {leader}, SOON_S)
        assert await scene.acks_arrive()
        scene.fill_disk(leader)
        assert not await scene.acks_arrive()
        scene.cluster.nodes[follower].start()
        assert await scene.cluster.wait_until(lambda: scene.leader == follower, SOON_S)
        assert await scene.acks_arrive(), "it does not wait for the former leader, which cannot append"
        scene.cluster.nodes[leader].disk.heal()
        assert await scene.cluster.wait_until(lambda: scene.isr == {leader, follower}, SOON_S)

    scene.cluster.run(main())


def test_when_every_disk_is_full_writing_continues_as_soon_as_there_is_room() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        for node_id in scene.cluster.nodes:
            scene.fill_disk(node_id)
        assert not await scene.acks_arrive()
        assert scene.leader >= 0
        for node in scene.cluster.nodes.values():
            node.disk.heal()
        assert await scene.acks_arrive(4 * SOON_S)
        assert await scene.cluster.wait_until(lambda: scene.isr == {1, 2, 3}, 4 * SOON_S)

    scene.cluster.run(main())


def test_a_broker_alone_waits_for_room() -> None:
    scene = Scene(nodes=1)

    async def main() -> None:
        await scene.begin()
        scene.fill_disk(1)
        assert not await scene.acks_arrive()
        assert scene.leader == 1
        assert scene.cluster.image.brokers[1].can_lead
        scene.cluster.nodes[1].disk.heal()
        assert await scene.acks_arrive()

    scene.cluster.run(main())


def test_a_broker_can_be_stopped_while_its_disk_is_full() -> None:
    scene = Scene()

    async def main() -> None:
        await scene.begin()
        leader = scene.leader
        scene.fill_disk(leader)
        assert await scene.cluster.wait_until(lambda: scene.leader != leader, SOON_S)
        async with asyncio.timeout(SOON_S):
            await scene.cluster.nodes[leader].stop()
        assert scene.cluster.nodes[leader].left_running == []
        assert await scene.acks_arrive()

    scene.cluster.run(main())


def test_a_replica_whose_disk_failed_leads_rather_than_the_last_leader_that_lost_power() -> None:
    scene = Scene()
    cluster = scene.cluster

    async def main() -> None:
        await scene.begin()
        last = scene.leader
        failed, third = (each for each in cluster.nodes if each != last)
        cluster.nodes[third].kill()
        assert await cluster.wait_until(lambda: scene.isr == {last, failed}, SOON_S)
        assert await scene.acks_arrive()
        broker = cluster.nodes[failed].broker
        assert broker is not None
        cluster.nodes[failed].disk.fail("write", errno.EIO, path_part=str(PLACE))
        storage = broker.log_directories.directories[0].storage
        assert await cluster.wait_until(lambda: storage.offline_reason is not None, SOON_S)
        cluster.nodes[failed].kill()
        assert await cluster.wait_until(lambda: scene.isr == {last}, SOON_S)
        cluster.nodes[last].kill(power_cut=True)
        cluster.nodes[last].start()
        cluster.nodes[third].start()
        assert await cluster.wait_until(lambda: not scene.isr and scene.elr == {failed}, SOON_S)
        cluster.nodes[failed].start()
        assert await cluster.wait_until(lambda: scene.isr == {1, 2, 3}, 2 * SOON_S)
        assert scene.leader == failed
        assert await scene.acks_arrive()

    cluster.run(main())
