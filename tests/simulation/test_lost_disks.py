"""A broker whose disk was replaced is not elected; brokers whose sessions end during recovery rejoin."""

from __future__ import annotations

import asyncio
import logging

from ottla.common.ids import TopicPartition
from ottla.metadata.image import PartitionImage
from ottla.testing.history import Acked, History
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.operator import SimOperator
from ottla.testing.simulation.producer import SimProducer

PLACE = TopicPartition("t", 0)
SOON_S = 10.0
SESSION_S = 0.5


class Scene:
    """One partition on all brokers, and a producer with acks=all that can be stopped."""

    def __init__(self, nodes: int, min_insync: int, *, forgets_boots: bool = False) -> None:
        self.cluster = SimCluster(1, nodes, session_timeout_s=SESSION_S, log_level=logging.WARNING)
        self.history = History(self.cluster.loop.time)
        self.min_insync = min_insync
        for node in self.cluster.nodes.values():
            node.disk.forgets_boots = forgets_boots

    async def begin(self) -> None:
        cluster = self.cluster
        for node in cluster.nodes.values():
            node.start()
        self.client = client = cluster.new_client()
        configs = {"min.insync.replicas": str(self.min_insync)}
        await client.process.spawn(client.create_topic("t", 1, len(cluster.nodes), configs))
        await self.until(lambda: len(self.partition.isr) == len(cluster.nodes))
        producer = cluster.new_client()
        self.producer = SimProducer(producer, self.history, "p", [PLACE])
        self.producing = producer.process.spawn(self.producer.run())
        await self.acks_arrive()

    @property
    def partition(self) -> PartitionImage:
        known = self.cluster.image.partition(*PLACE)
        assert known is not None
        return known

    async def until(self, is_so: object) -> None:
        assert callable(is_so)
        assert await self.cluster.wait_until(is_so, SOON_S), (self.partition, self.cluster.log[-5:])

    async def acks_arrive(self) -> None:
        before = self._acks()
        await self.until(lambda: self._acks() > before + 5)

    def _acks(self) -> int:
        return sum(isinstance(event, Acked) for event in self.history.events)

    async def stop_producer(self) -> None:
        self.producer.is_stopping = True
        await asyncio.wait([self.producing], timeout=SOON_S)

    async def kill(self, *nodes: int) -> None:
        """Kill brokers, and wait until the cluster knows."""
        for node_id in nodes:
            self.cluster.nodes[node_id].kill()
        await asyncio.sleep(2 * SESSION_S)

    async def start(self, *nodes: int) -> None:
        """Start brokers, and wait until they are in the cluster."""
        for node_id in nodes:
            self.cluster.nodes[node_id].start()
        await self.until(lambda: all(self.cluster.nodes[each].broker is not None for each in nodes))

    async def replace_disk(self, node_id: int) -> None:
        self.cluster.nodes[node_id].disk.replace()
        await self.start(node_id)
        await asyncio.sleep(SESSION_S)

    def end_on(self, node_id: int) -> int:
        """Return where the log ends on a broker."""
        broker = self.cluster.nodes[node_id].broker
        assert broker is not None
        log = broker.log_directories.get(PLACE)
        return 0 if log is None else log.log_end_offset

    def has_said(self, words: str) -> bool:
        return any(words in line for line in self.cluster.log)


def test_an_empty_disk_is_not_elected_when_all_others_seem_to_have_lost_power() -> None:
    scene = Scene(3, min_insync=2, forgets_boots=True)

    async def main() -> None:
        await scene.begin()
        await scene.stop_producer()
        leader = scene.partition.leader
        followers = [each for each in scene.cluster.nodes if each != leader]
        end = scene.end_on(leader)
        await scene.kill(*followers)
        await scene.kill(leader)
        await scene.start(*followers)
        await scene.replace_disk(leader)
        assert scene.partition.leader == -1, scene.partition
        assert [scene.end_on(each) for each in followers] == [end, end], "no replica truncates"
        assert scene.has_said("1 partitions have no leader")
        await scene.client.process.spawn(SimOperator(scene.client).elect_unclean_leaders([PLACE]))
        await scene.until(lambda: scene.partition.isr and set(scene.partition.isr) == {1, 2, 3})
        assert [scene.end_on(each) for each in (1, 2, 3)] == [end] * 3

    scene.cluster.run(main())


def test_with_two_replicas_there_is_no_leader_until_the_disk_of_the_last_leader_is_back() -> None:
    scene = Scene(2, min_insync=1)

    async def main() -> None:
        await scene.begin()
        leader = scene.partition.leader
        follower = 3 - leader
        await scene.cluster.nodes[follower].stop()
        await scene.until(lambda: scene.partition.isr == (leader,))
        await scene.acks_arrive()
        await scene.stop_producer()
        end = scene.end_on(leader)
        await scene.kill(leader)
        await scene.start(follower)
        await scene.replace_disk(leader)
        assert scene.partition.leader == -1, "one is empty, the other may miss records"
        assert scene.end_on(follower) > 0
        assert scene.has_said("is not the log directory that broker")
        await scene.kill(leader)
        scene.cluster.nodes[leader].disk.put_back()
        await scene.start(leader)
        await scene.until(lambda: scene.partition.leader == leader and len(scene.partition.isr) == 2)
        assert scene.end_on(follower) == end

    scene.cluster.run(main())


def test_brokers_whose_sessions_end_during_recovery_stand_for_election() -> None:
    scene = Scene(3, min_insync=2)

    async def main() -> None:
        await scene.begin()
        await scene.kill(1, 2, 3)
        server = scene.cluster.server
        for node in scene.cluster.nodes.values():
            node.recovery_s = (1.0, 1.0)
            node.start()
        await scene.until(lambda: all(server.session_of(each) for each in (1, 2, 3)))
        await asyncio.sleep(0.8)
        scene.cluster.store_latency_s = (0.3, 0.3)  # the next sessions take longer than what is left
        for node_id in (1, 2, 3):
            server.expire_node(node_id)
        await asyncio.sleep(1.0)
        scene.cluster.store_latency_s = (0.001, 0.002)
        await scene.until(lambda: all(each.broker for each in scene.cluster.nodes.values()))
        await scene.acks_arrive()

    scene.cluster.run(main())


def test_a_broker_that_starts_while_the_store_is_away_waits_for_it() -> None:
    scene = Scene(3, min_insync=2)

    async def main() -> None:
        await scene.begin()
        node = scene.cluster.nodes[1]
        await scene.kill(1)
        node.start()
        node.cut_store()
        await asyncio.sleep(10 * SESSION_S)
        node.heal_store()
        await scene.until(lambda: node.broker is not None)
        assert node.start_problems == []

    scene.cluster.run(main())
