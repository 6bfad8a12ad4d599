"""A month of operations in virtual time: restarts, growth, full, lost and replaced disks, lost ZooKeeper.

Producers and readers work all the time. Every day has one incident and its runbook (docs/operations.md), and
says what health, readiness, metrics and logs must report during it and after it (health_monitor.py). In the
end the records are checked as in every simulation: nothing acknowledged is lost or doubled, order holds,
replicas are equal.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator
from typing import NamedTuple

from ottla.client.admin.cluster_admin import ClusterAdmin
from ottla.client.admin.cluster_health import check_restart
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.common.placement import spread
from ottla.metadata.image import MAINTENANCE_KEY
from ottla.protocol.errors import KafkaError
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.health_monitor import Day, HealthMonitor
from ottla.testing.simulation.node import SimNode
from ottla.testing.simulation.plan import TWO_DISKS, Plan
from ottla.testing.simulation.probe import Probe
from ottla.testing.simulation.scenario import HEALED_WITHIN_S, TOPIC, Outcome, Scenario, simulate

SINGLE = TopicPartition("single", 0)
SETTINGS = {
    "replica.lag.time.max.ms": "4000",
    "leader.imbalance.check.interval.seconds": "3600",
    "log.dirs": TWO_DISKS["log.dirs"],
}
SKEW_MS = 5_000
FRESH = "a fresh cluster"


class DayOutcome(NamedTuple):
    """One day: what happened, how long it took, and what was wrong with it."""

    name: str
    seconds: float
    violations: int


class Month(Scenario):
    """The month, or the first and the `only` day of it. `days_run` has the outcome of each day."""

    only: str | None = None

    def __init__(self, plan: Plan, cluster: SimCluster) -> None:
        super().__init__(plan, cluster)
        self.days_run: list[DayOutcome] = []
        self.monitor = HealthMonitor(cluster, self.history, self.places, self.violations)

    def summary(self) -> str:
        """Return what was done."""
        looks = self.monitor.looks
        return f"{len(self.days_run)} days, {self.acked} batches acknowledged, {looks} looks at health"

    async def run(self) -> None:
        """Live through all days, then judge."""
        for node_id in (1, 2, 3):
            self.cluster.nodes[node_id].start()
        probe = Probe(self.cluster, TOPIC)
        working = await self._start_clients()
        admin = self.cluster.clients[0]
        await admin.process.spawn(admin.create_topic(SINGLE.topic, 1, 1))
        looking = [asyncio.ensure_future(probe.run()), asyncio.ensure_future(self.monitor.watch())]
        for name, day in self.days():
            if self.only in (None, name) or name == FRESH:
                await self._live(name, day)
        for task in looking:
            task.cancel()
        logs = await self._finish(working)
        self.violations += probe.violations
        await self._stop_brokers()
        self.violations += self._judge(logs)
        self._check_disks(logs)

    async def _live(self, name: str, day: Day) -> None:
        before, began_s = len(self.monitor.violations), self.cluster.loop.now
        if self.days_run:
            self.monitor.start_day()
        try:
            await day()
        except (KafkaError, ClientError) as error:
            self.monitor.report("operator-failed", f"{name}: {error!r}")
        wrong = len(self.monitor.violations) - before
        self.days_run.append(DayOutcome(name, self.cluster.loop.now - began_s, wrong))

    def days(self) -> Iterator[tuple[str, Day]]:
        """Yield the days, in order."""
        yield FRESH, self._fresh
        yield "rolling restart", self._rolling_restart
        yield "the controller dies", self._controller_dies
        yield "a broker is added, and the load balanced", self._expansion
        yield "maintenance of a broker", self._maintenance
        yield "a disk is full", self._full_disk
        yield "one of two disks is full", self._one_full_disk
        yield "one of two disks fails", self._failed_disk
        yield "a disk is replaced", self._replaced_disk
        yield "the only replica of a partition is lost", self._lost_partition
        yield "a clock is wrong", self._wrong_clock
        yield "one broker is cut off from ZooKeeper", self._cut_off
        yield "ZooKeeper has no quorum", self._no_quorum
        yield "ZooKeeper has no quorum, and a broker dies", self._no_quorum_and_a_death
        yield "ZooKeeper was restored from an older snapshot", self._older_store
        yield "two of three replicas are away", self._too_few_replicas
        yield "a rack is lost, with its power", self._power_cut
        yield "a broker is decommissioned, and another joins", self._decommission

    # The days

    async def _fresh(self) -> None:
        await self.monitor.expect_green("a fresh cluster")
        self.monitor.expect_log("topics", "topic t created")

    async def _rolling_restart(self) -> None:
        for node_id in self._live_nodes():
            await self._expect_restart(node_id, is_safe=True)
            await self._node(node_id).stop()
            await self.monitor.expect_red(f"broker {node_id} is down", "broker-down", "under-replicated")
            self.monitor.expect(f"writes during the restart of {node_id}", await self.monitor.writes_work())
            other = next(each for each in self._live_nodes() if each != node_id)
            await self._expect_restart(other, is_safe=False)
            self._node(node_id).start()
            await self.monitor.expect_green(f"broker {node_id} is back")
        self.monitor.expect_log("restarts", "fenced: its session has ended", "returned, broker epoch")

    async def _controller_dies(self) -> None:
        session = self.cluster.server.controller
        assert session is not None
        self._node(session.node_id).kill()
        await self.monitor.expect_red("the controller is dying", "broker-down", within_s=5)
        self.monitor.expect("writes without it", await self.monitor.writes_work(15))
        self.monitor.expect_log("its death", f"broker {session.node_id} fenced", "elected leader instead of")
        self._node(session.node_id).start()
        await self.monitor.expect_green("the controller is back")

    async def _expansion(self) -> None:
        self._node(4).start()
        await self.cluster.wait_until(lambda: 4 in self.cluster.image.brokers, HEALED_WITHIN_S)
        self.monitor.expect_log("it joined", "broker 4 joined the cluster")
        await self._balance()
        topic = self.cluster.image.topics[TOPIC]
        held = [sum(node_id in each.replicas for each in topic.partitions) for node_id in (1, 2, 3, 4)]
        self.monitor.expect(f"an even spread, not {held}", max(held) - min(held) <= 1)
        self.monitor.expect_log("moves", "reassignment started", "reassignment ended")
        await self.monitor.expect_green("four brokers")

    async def _maintenance(self) -> None:
        await self._set_maintenance(2, is_on=True)
        led = await self.cluster.wait_until(lambda: not self._leads(2, TOPIC), HEALED_WITHIN_S)
        self.monitor.expect("broker 2 leads nothing of the topic", led)
        await self.monitor.expect_warning("broker 2 is in maintenance", "maintenance")
        await self._expect_restart(2, is_safe=True)
        await self._create_topic("new")
        replicas = {each for part in self.cluster.image.topics["new"].partitions for each in part.replicas}
        self.monitor.expect(f"no new replicas on broker 2, but {replicas}", 2 not in replicas)
        await self._set_maintenance(2, is_on=False)
        await self.monitor.expect_green("broker 2 is in service")

    async def _full_disk(self) -> None:
        disk = self._node(3).disk
        disk.capacity_bytes = disk.used_bytes()
        await self.monitor.expect_red("broker 3 has no space", "disk-full", not_ready=[3])
        await self._expect_restart(3, is_safe=False)
        self.monitor.expect("writes, led by others", await self.monitor.writes_work(15))
        self.monitor.expect_log("it drains", "broker 3 drains")
        disk.heal()
        await self.monitor.expect_green("broker 3 has space")

    async def _one_full_disk(self) -> None:
        """Others lead what is on it; the broker stays ready, and leads what is on its other disk."""
        node = self._node(3)
        assert node.broker is not None
        paths = {
            at.partition: log.path
            for at, log in node.broker.log_directories.logs.items()
            if at.topic == TOPIC
        }
        path = next(
            each for each in node.directories if any(log.startswith(f"{each}/") for log in paths.values())
        )
        inside = {at for at, log in paths.items() if log.startswith(f"{path}/")}
        node.disk.limit(path)
        await self.monitor.expect_red("one disk of broker 3 has no space", "disk-full", not_ready=[])
        self.monitor.expect("writes, led by others", await self.monitor.writes_work(15))
        self.monitor.expect_log(
            "the full disk", "broker 3: a log directory is full", f"the disk of {path} is full"
        )
        without = {each.index for each in self.cluster.image.topics[TOPIC].partitions if 3 in each.full}
        self.monitor.expect(f"others lead {inside}, not {without}", without == inside)
        self.monitor.expect("broker 3 may lead", self.cluster.image.brokers[3].can_lead)
        node.disk.heal()
        await self.monitor.expect_green("the disk of broker 3 has space")

    async def _failed_disk(self) -> None:
        """Its replicas are offline, the broker is not; the disk is repaired, and the broker restarted."""
        node = next(node for node in self.cluster.nodes.values() if node.node_id != self._holder(SINGLE))
        path = node.directories[1]
        for kind in ("write", "fsync", "fsync_dir", "truncate"):
            node.disk.fail(kind, errno.EIO, times=1 << 30, path_part=f"{path}/")
        await self.monitor.expect_red("one disk fails", "log-directory-offline", not_ready=[])
        self.monitor.expect("the broker is ready", (await self.monitor.readiness())[node.node_id])
        self.monitor.expect("writes, led by others", await self.monitor.writes_work(15))
        self.monitor.expect_log("the failed disk", f"{path}")
        other = next(each for each in self._live_nodes() if each != node.node_id)
        await self._expect_restart(other, is_safe=False)
        await self._expect_restart(node.node_id, is_safe=True)
        node.disk.heal()
        await node.stop()
        node.start()
        await self.monitor.expect_green("the disk is repaired")

    async def _replaced_disk(self) -> None:
        self._node(1).kill()
        self._node(1).disk.replace()
        holder = self._holder(SINGLE)
        self._node(1).start()
        if holder != 1:
            await self.monitor.expect_green("broker 1 has copied everything")
        self.monitor.expect("writes", await self.monitor.writes_work(15))
        self.monitor.expect_log("the wiped disk", "with ANOTHER log directory")
        if holder == 1:
            await self._give_up_single()

    async def _lost_partition(self) -> None:
        holder = self._holder(SINGLE)
        self._node(holder).kill()
        self._node(holder).disk.replace()
        await self.monitor.expect_red("its broker is away", "broker-down")
        self._node(holder).start()
        await self._give_up_single()

    async def _give_up_single(self) -> None:
        """Follow the runbook of a lost disk: it is loud, and ends with an unclean election."""
        await self.monitor.expect_red("the disk is lost", "lost-disk", "offline")
        self.monitor.expect_log("the lost disk", "restarted with another log directory", "is OFFLINE")
        await self.monitor.run(
            lambda connected: ClusterAdmin(connected).elect_leaders([SINGLE], unclean=True)
        )
        await self.monitor.expect_green("the partition is given up")
        self.monitor.expect_log("the loss", "UNCLEAN")

    async def _wrong_clock(self) -> None:
        self._node(2).clock.skew_ms = SKEW_MS
        await self.monitor.expect_warning("the clock of broker 2", "clock-skew")
        self._node(2).clock.skew_ms = 0
        await self.monitor.expect_green("the clock is right")

    async def _cut_off(self) -> None:
        self._node(2).cut_store()
        await self.monitor.expect_red("broker 2 has no session", not_ready=[2])
        self.monitor.expect("writes, led by others", await self.monitor.writes_work(20))
        self._node(2).heal_store()
        await self.monitor.expect_green("broker 2 is connected")

    async def _no_quorum(self) -> None:
        self.cluster.server.lose_quorum(self.cluster.nodes)
        live = self._live_nodes()
        codes = ("no-metadata-store", "no-controller", "zookeeper-quorum")
        await self.monitor.expect_red("no quorum", *codes, not_ready=live)
        self.monitor.expect("writes while all replicas are there", await self.monitor.writes_work())
        self.monitor.expect("no active controller", self.monitor.active_controllers() == 0)
        await self._expect_restart(1, is_safe=False)
        self.cluster.server.regain_quorum(self.cluster.nodes)
        await self.monitor.expect_green("a quorum")

    async def _no_quorum_and_a_death(self) -> None:
        """The incident of the issue: health was green, and nothing could be written."""
        await self.monitor.run(lambda connected: ClusterAdmin(connected).elect_leaders(None))
        self.cluster.server.lose_quorum(self.cluster.nodes)
        leader = self.cluster.image.topics[TOPIC].partitions[0].leader
        self._node(leader).kill()
        self.monitor.expect("no writes", not await self.monitor.writes_work(20))
        live = [each for each in self._live_nodes() if each != leader]
        codes = ("broker-down", "no-controller", "no-metadata-store", "writes-stalled")
        await self.monitor.expect_red("nothing can be written", *codes, not_ready=live)
        self.monitor.expect("no active controller", self.monitor.active_controllers() == 0)
        self.cluster.server.regain_quorum([each for each in self.cluster.nodes if each != leader])
        self._node(leader).start()
        await self.monitor.expect_green("a quorum, and all brokers")

    async def _older_store(self) -> None:
        """The brokers refuse it, and continue by themselves with the newest state."""
        older = self.cluster.server.snapshot()
        await self._create_topic("newer")
        await self.monitor.expect_green("a newer topic")
        newest = self.cluster.server.snapshot()
        self.cluster.server.restore(older)
        live = self._live_nodes()
        await self.monitor.expect_red("an older ZooKeeper", "metadata-rolled-back", not_ready=live)
        self.monitor.expect("no writes", not await self.monitor.writes_work(10))
        self.monitor.expect_log("the older ZooKeeper", "the metadata went back")
        await self._expect_restart(1, is_safe=False)
        self.cluster.server.restore(newest)
        await self.monitor.expect_green("the newest state is back")
        self.monitor.expect("the newer topic is there", "newer" in self.cluster.image.topics)

    async def _too_few_replicas(self) -> None:
        away = self.cluster.image.topics[TOPIC].partitions[0].replicas[:2]
        for node_id in away:
            self._node(node_id).kill()
        await self.monitor.expect_red("one replica of three is left", "broker-down", "under-min-isr")
        self.monitor.expect("no writes", not await self.monitor.writes_work(10))
        for node_id in away:
            self._node(node_id).start()
        await self.monitor.expect_green("all brokers are back")

    async def _power_cut(self) -> None:
        self._node(3).kill(power_cut=True)
        await self.monitor.expect_red("a rack is dark", "broker-down")
        self.monitor.expect("writes without it", await self.monitor.writes_work(20))
        self._node(3).start()
        await self.monitor.expect_green("the rack is back")

    async def _decommission(self) -> None:
        await self._set_maintenance(4, is_on=True)
        await self.monitor.run(self._move_off_4)
        await self._until_nothing_moves()
        await self._create_topic("late")
        placed = self._held(4)
        self.monitor.expect(f"nothing is placed on broker 4: {placed}", not placed)
        await self._node(4).stop()
        await self.cluster.wait_until(lambda: self.cluster.image.brokers[4].fenced, HEALED_WITHIN_S)
        await self.monitor.run(lambda connected: ClusterAdmin(connected).unregister(4))
        await self.monitor.expect_green("three brokers")
        self.monitor.expect_log("the removal", "broker 4 unregistered")
        self._node(4).disk.replace()
        self._node(4).start()
        await self.cluster.wait_until(lambda: 4 in self.cluster.image.brokers, HEALED_WITHIN_S)
        await self.monitor.expect_green("a new broker 4, in service")
        self.monitor.expect("it is not in maintenance", 4 not in self.cluster.image.in_maintenance)

    # What operators do

    async def _balance(self) -> None:
        async def move(connected: Cluster) -> None:
            admin = ClusterAdmin(connected)
            info = await admin.describe()
            racks = {each.node_id: each.rack for each in info.brokers.values()}
            plan = spread({at: info.target(at) for at in info.partitions if at != SINGLE}, racks)
            await admin.reassign({at: to for at, to in plan.items() if to != info.target(at)})

        await self.monitor.run(move)
        await self._until_nothing_moves()
        await self.monitor.run(lambda connected: ClusterAdmin(connected).elect_leaders(None))

    async def _move_off_4(self, connected: Cluster) -> None:
        admin = ClusterAdmin(connected)
        info = await admin.describe()
        racks = {each.node_id: each.rack for each in info.brokers.values() if each.node_id != 4}
        held = {at: info.target(at) for at in info.partitions if 4 in info.target(at)}
        await admin.reassign(dict(spread(held, racks, even=False)))

    async def _create_topic(self, name: str) -> None:
        await self.monitor.run(
            lambda connected: TopicAdmin(connected).create_topic(name, partitions=4, replication_factor=3)
        )

    async def _until_nothing_moves(self) -> None:
        def is_calm() -> bool:
            topics = self.cluster.image.topics.values()
            return not any(each.is_reassigning for topic in topics for each in topic.partitions)

        self.monitor.expect("the moves end", await self.cluster.wait_until(is_calm, 2 * HEALED_WITHIN_S))

    async def _set_maintenance(self, node_id: int, *, is_on: bool) -> None:
        change = {"set_to": {MAINTENANCE_KEY: "true"}} if is_on else {"unset": (MAINTENANCE_KEY,)}

        async def set_it(connected: Cluster) -> None:
            await TopicAdmin(connected).alter_broker_configs(node_id, **change)

        await self.monitor.run(set_it)

    async def _expect_restart(self, node_id: int, *, is_safe: bool) -> None:
        found = await self.monitor.examine()
        checked = None if found is None else check_restart(found, node_id)
        if checked is None or checked.is_safe != is_safe:
            self.monitor.report("restart-check", f"broker {node_id} is {'not ' * is_safe}safe: {checked}")

    def _node(self, node_id: int) -> SimNode:
        return self.cluster.nodes[node_id]

    def _live_nodes(self) -> list[int]:
        return [node_id for node_id, node in self.cluster.nodes.items() if node.broker is not None]

    def _leads(self, node_id: int, topic: str) -> bool:
        return any(each.leader == node_id for each in self.cluster.image.topics[topic].partitions)

    def _held(self, node_id: int) -> list[str]:
        topics = self.cluster.image.topics.values()
        return [topic.name for topic in topics for each in topic.partitions if node_id in each.replicas]

    def _holder(self, place: TopicPartition) -> int:
        known = self.cluster.image.partition(*place)
        assert known is not None
        return known.replicas[0]


def run_month(seed: int = 1, log_level: int = logging.INFO, only: str | None = None) -> tuple[Outcome, Month]:
    """Run a month, or one day of it, on three brokers; the fourth joins during the month."""
    months: list[Month] = []

    class Kept(Month):
        def __init__(self, plan: Plan, cluster: SimCluster) -> None:
            super().__init__(plan, cluster)
            self.only = only
            months.append(self)

    plan = Plan(seed, nodes=4 if only is None else 3, partitions=4, settings=dict(SETTINGS))
    outcome = simulate(plan, log_level, Kept)
    return outcome, months[0]
