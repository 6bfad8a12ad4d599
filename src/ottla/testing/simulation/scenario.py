"""Run one seed: clients work, faults come and go, everything heals, and is checked."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from random import Random

from ottla.common.ids import TopicPartition
from ottla.controller.machine import partitions_awaiting_directory
from ottla.protocol.errors import KafkaError
from ottla.testing.checker import Violation, check
from ottla.testing.history import Acked, Failed, History, Read, Sent
from ottla.testing.replica_check import Replica, check_replicas, read_replica
from ottla.testing.simulation.client import SimClient
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.consumer import SimConsumer
from ottla.testing.simulation.faults import FaultMaker
from ottla.testing.simulation.group import GROUP, SimGroupMember, fetch_committed, find_coordinator
from ottla.testing.simulation.loop import Deadlock
from ottla.testing.simulation.plan import Plan
from ottla.testing.simulation.probe import Probe
from ottla.testing.simulation.producer import SimProducer

TOPIC = "t"
PRODUCERS, CONSUMERS, MEMBERS = 2, 1, 2
HEALED_WITHIN_S = 30.0
ACCEPTED_WITHIN_S = 3.0
"""How long after the end of all faults a producer may still get errors."""
GROUP_ENDS_WITHIN_S = 2.0
ATTEMPTS = 100
GROUP_SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "100",
}
RACK_AWARE = {"replica.selector.class": "RackAwareReplicaSelector"}


@dataclass
class Outcome:
    """The result of a seed."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    trace: int = 0
    """A checksum of everything that went over the network, and when."""
    end_s: float = 0.0
    callbacks: int = 0
    acked: int = 0
    log: list[str] = field(default_factory=list)
    """What the brokers logged."""
    history: History = field(default_factory=History)
    summary: str = ""
    """What clients achieved."""


def simulate(plan: Plan, log_level: int = logging.ERROR, course: type[Scenario] | None = None) -> Outcome:
    """Run a plan; `course` is what clients do, unless they are plain producers and readers."""
    cluster = SimCluster(
        plan.seed,
        plan.nodes,
        {**plan.settings, **(RACK_AWARE if plan.racks else {}), **(GROUP_SETTINGS if plan.group else {})},
        session_timeout_s=plan.session_timeout_s,
        log_level=log_level,
    )
    for node in cluster.nodes.values():
        node.disk.forgets_boots = plan.forgets_boots
    for node, min_insync in zip(cluster.nodes.values(), plan.min_insync_of, strict=False):
        node.configure("min.insync.replicas", str(min_insync))
    scenario = (course or Scenario)(plan, cluster)
    violations = scenario.violations
    try:
        cluster.run(scenario.run())
    except Deadlock as error:
        violations.append(Violation("stuck", str(error)))
    violations += [Violation("unhandled-error", each) for each in cluster.loop.problems]
    return Outcome(
        plan, violations, cluster.network.trace, cluster.loop.now, cluster.loop.callbacks, scenario.acked,
        cluster.log, scenario.history, scenario.summary(),
    )  # fmt: skip


class Scenario:
    """The course of one run."""

    def __init__(self, plan: Plan, cluster: SimCluster) -> None:
        self.plan = plan
        self.cluster = cluster
        self.history = History(cluster.loop.time)
        self.violations: list[Violation] = []
        self.places = [TopicPartition(TOPIC, index) for index in range(plan.partitions)]
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer] = []
        self.members: list[SimGroupMember] = []
        self._owners: dict[tuple[int, TopicPartition], str] = {}

    async def run(self) -> None:
        """Play the plan, then judge."""
        plan, cluster = self.plan, self.cluster
        for node in cluster.nodes.values():
            node.start()
        probe = Probe(cluster, TOPIC)
        looking = asyncio.ensure_future(probe.run())
        working = await self._start_clients()
        faults = FaultMaker(cluster, cluster.clients[0], TOPIC)
        await faults.run(plan.faults)
        await asyncio.sleep(max(0.0, plan.until_s - cluster.loop.now))
        await faults.heal_everything()
        if plan.may_wait_for_disk:
            await cluster.wait_until(lambda: self._is_whole() or self._waits_for_disk(), HEALED_WITHIN_S)
            await faults.put_disks_back(partitions_awaiting_directory(cluster.image))
        if not await cluster.wait_until(self._is_whole, HEALED_WITHIN_S):
            self._report("not-healed", self._what_is_missing())
        healed_s = cluster.loop.now
        logs = await self._finish(working)
        self._check_deliveries(healed_s)
        looking.cancel()
        self.violations += probe.violations
        await self._stop_brokers()
        self.violations += self._judge(logs)
        self._check_disks(logs)

    @property
    def acked(self) -> int:
        """How many batches were acknowledged."""
        return sum(isinstance(event, Acked) for event in self.history.events)

    def summary(self) -> str:
        """Return what clients achieved."""
        return f"{self.acked} batches acknowledged"

    async def _finish(self, working: list[asyncio.Task[None]]) -> dict[TopicPartition, list[Read]]:
        """Let clients stop when all has healed, and return what is there then."""
        for producer in self.producers:
            producer.is_stopping = True
        await asyncio.wait(working[: len(self.producers)], timeout=HEALED_WITHIN_S)
        if not await self.cluster.wait_until(self._is_quiet, HEALED_WITHIN_S):
            self._report("not-healed", f"still at work: {self._what_is_missing()}")
        self._commits = await self._read_commits()
        return await self._read_everything()

    def _check_deliveries(self, healed_s: float) -> None:
        """A producer with acks=all gives up only what it sent while something was wrong.

        With acks=1 records can be lost, and what comes after them is out of order.
        """
        unsafe = {each.number for each in self.history.events if isinstance(each, Sent) and not each.is_safe}
        for event in self.history.events:
            if not isinstance(event, Failed) or event.number in unsafe:
                continue
            if event.at_s > healed_s + ACCEPTED_WITHIN_S:
                late_s = event.at_s - healed_s
                self._report("not-healed", f"send {event.number} was refused until {late_s:.1f} s after it")

    def _judge(self, logs: dict[TopicPartition, list[Read]]) -> list[Violation]:
        topic = self.cluster.image.topics[TOPIC]
        steady = [TopicPartition(TOPIC, each.index) for each in topic.partitions if each.leader_epoch == 0]
        return check(self.history, logs, self._commits, steady)

    async def _start_clients(self) -> list[asyncio.Task[None]]:
        cluster, plan = self.cluster, self.plan
        admin = cluster.new_client()
        configs = {} if plan.min_insync_of else {"min.insync.replicas": str(plan.min_insync)}
        if plan.flush_on_ack:
            configs["flush.messages"] = "1"
        if plan.segment_bytes is not None:
            configs["segment.bytes"] = str(plan.segment_bytes)
        await admin.process.spawn(admin.create_topic(TOPIC, plan.partitions, plan.replicas, configs))
        tasks = []
        for number in range(PRODUCERS):
            client = cluster.new_client()
            acks = 1 if plan.hasty and number == 0 else -1
            producer = SimProducer(client, self.history, f"p{number}", self.places, acks=acks)
            self.producers.append(producer)
            tasks.append(client.process.spawn(producer.run()))
        for number in range(CONSUMERS):
            client = cluster.new_client(f"r{number + 1}" if plan.racks else "")
            consumer = SimConsumer(client, self.history, f"c{number}", dict.fromkeys(self.places, 0))
            self.consumers.append(consumer)
            tasks.append(client.process.spawn(consumer.run()))
        for number in range(MEMBERS if plan.group else 0):
            client = cluster.new_client()
            oversleeping = Random(f"member {number} of {plan.seed}") if plan.oversleeps else None
            member = SimGroupMember(
                client, self.history, f"m{number}", self.places, self._owners, oversleeping
            )
            self.members.append(member)
            client.process.spawn(member.run())
        return tasks

    # What has to be so in the end

    def _is_whole(self) -> bool:
        """Every broker runs, knows the newest metadata, and every replica is in sync."""
        image = self.cluster.image
        for node in self.cluster.nodes.values():
            if node.broker is None or node.broker.cluster.image.version != image.version:
                return False
        topic = image.topics.get(TOPIC)
        if any(partitions_awaiting_directory(image).values()):
            return False  # the brokers' own topics, too
        return topic is not None and all(
            each.leader >= 0 and set(each.isr) == set(each.replicas) and not each.is_reassigning
            for each in topic.partitions
        )

    def _waits_for_disk(self) -> bool:
        """Nothing is missing but the disk that was replaced."""
        image = self.cluster.image
        waiting = partitions_awaiting_directory(image)
        places = {place for places in waiting.values() for place in places}
        return bool(waiting) and all(
            each.leader >= 0 and set(each.isr) == set(each.replicas)
            for topic in image.topics.values()
            for each in topic.partitions
            if (topic.name, each.index) not in places
        )

    def _is_quiet(self) -> bool:
        """Every replica ends at the same offset, and readers are there."""
        for place in self.places:
            ends = set()
            for node in self.cluster.nodes.values():
                if node.broker is None:
                    return False
                if node.node_id in self._replicas_of(place):
                    log = node.broker.log_directories.logs.get(place)
                    ends.add(None if log is None else log.log_end_offset)
            if len(ends) != 1 or any(each.positions[place] not in ends for each in self.consumers):
                return False
        return self._is_whole()

    def _replicas_of(self, place: TopicPartition) -> tuple[int, ...]:
        known = self.cluster.image.partition(place.topic, place.partition)
        return () if known is None else known.replicas

    def _what_is_missing(self) -> str:
        image = self.cluster.image
        parts = [f"metadata is at {image.version}"]
        for node in self.cluster.nodes.values():
            if node.broker is None:
                parts.append(f"broker {node.node_id} does not run ({node.start_problems[-1:]})")
                continue
            ends = {str(place): log.log_end_offset for place, log in node.broker.log_directories.logs.items()}
            parts.append(f"broker {node.node_id} is at {node.broker.cluster.image.version}, logs {ends}")
        topic = image.topics.get(TOPIC)
        parts += [str(each) for each in (topic.partitions if topic is not None else ())]
        parts += [f"{each.positions}" for each in self.consumers]
        return "; ".join(parts)

    async def _read_everything(self) -> dict[TopicPartition, list[Read]]:
        """Read all partitions from the start, with a reader that nothing happened to."""
        client = self.cluster.new_client()
        reader = self._new_reader(client)
        reading = client.process.spawn(reader.run())
        ends = {place: self._end_of(place) for place in self.places}
        await self.cluster.wait_until(
            lambda: all(reader.positions[place] >= end for place, end in ends.items()), HEALED_WITHIN_S
        )
        for consumer in (reader, *self.consumers):
            consumer.is_stopping = True
        await asyncio.wait([reading], timeout=HEALED_WITHIN_S)
        for consumer in (reader, *self.consumers):
            self.violations += [Violation("wrong-answer", problem) for problem in consumer.problems]
        for producer in self.producers:
            self.violations += [Violation("wrong-answer", problem) for problem in producer.problems]
        return reader.records

    def _new_reader(self, client: SimClient) -> SimConsumer:
        return SimConsumer(client, self.history, "last", dict.fromkeys(self.places, 0))

    async def _read_commits(self) -> dict[tuple[str, TopicPartition], int] | None:
        """Stop the members, and read what they have committed."""
        if not self.members:
            return None
        for member in self.members:
            member.is_stopping = True
            self.violations += [Violation("wrong-answer", problem) for problem in member.problems]
        client = self.cluster.new_client()
        await asyncio.sleep(GROUP_ENDS_WITHIN_S)
        for _ in range(ATTEMPTS):
            try:
                found = await client.process.spawn(self._fetch_commits(client))
            except KafkaError:
                await client.pause()
            else:
                return {(GROUP, place): offset for place, offset in found.items()}
        self._report("not-healed", "the group's offsets cannot be read")
        return None

    async def _fetch_commits(self, client: SimClient) -> dict[TopicPartition, int]:
        return await fetch_committed(client, await find_coordinator(client), self.places)

    def _end_of(self, place: TopicPartition) -> int:
        logs = [node.broker.log_directories.get(place) for node in self.cluster.nodes.values() if node.broker]
        return max((log.log_end_offset for log in logs if log is not None), default=0)

    async def _stop_brokers(self) -> None:
        stops = [asyncio.ensure_future(node.stop()) for node in self.cluster.nodes.values()]
        _, unfinished = await asyncio.wait(stops, timeout=HEALED_WITHIN_S)
        for node in self.cluster.nodes.values():
            self.violations += [Violation("leaked-task", each) for each in node.left_running]
        if unfinished:
            self._report("not-stopped", f"{len(unfinished)} brokers after {HEALED_WITHIN_S} s")

    def _check_disks(self, logs: dict[TopicPartition, list[Read]]) -> None:
        for place in self.places:
            replicas: list[Replica] = []
            for node_id in self._replicas_of(place):
                node = self.cluster.nodes[node_id]
                paths = [f"{each}/{place}" for each in node.directories]
                replicas += [
                    read_replica(node.disk, each, node.host) for each in paths if node.disk.exists(each)
                ]
            if not replicas:
                self._report("replicas-differ", f"{place} is on no disk")
                continue
            self.violations += check_replicas(place, replicas)
            if replicas[0].records() != logs[place]:
                self._report("replicas-differ", f"{place}: readers see something else than the disk holds")

    def _report(self, name: str, detail: str) -> None:
        self.violations.append(Violation(name, detail))
