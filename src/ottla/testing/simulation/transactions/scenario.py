"""One seed of transactions, from its plan to a verdict; the course is that of sim_scenario.py.

After everything has healed, every transactional id must be able to commit again, and what its clients left
open must end by itself, unless it is prepared. That waits until it is ended, at last.

In some seeds the coordinators lose the end of their logs in a power failure of all brokers. Their decisions
may be gone then (FORGIVEN). All else holds, and an operator ends what hangs (docs/transactions.md).
"""

from __future__ import annotations

import asyncio

from ottla.common.ids import TopicPartition
from ottla.common.topic_names import INTERNAL_TOPICS
from ottla.log.log import Log
from ottla.testing.checker import Violation
from ottla.testing.history import Read
from ottla.testing.replica_check import (
    Replica,
    check_compacted_replica,
    check_replicas,
    read_replica,
)
from ottla.testing.simulation.client import SimClient
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.operator import SimOperator
from ottla.testing.simulation.plan import Plan
from ottla.testing.simulation.scenario import HEALED_WITHIN_S, TOPIC, Scenario
from ottla.testing.simulation.transactions.attempts import TransactionHistory, TransactionOutcome
from ottla.testing.simulation.transactions.calls import TransactionCalls
from ottla.testing.simulation.transactions.check import (
    check_aborted_index,
    check_reader,
    check_transactions,
    committed_records,
)
from ottla.testing.simulation.transactions.clients import SimTransactional, SimTwoPhase
from ottla.testing.simulation.transactions.probe import TransactionProbe
from ottla.testing.simulation.transactions.reader import CommittedReader, OffsetWatcher

IDS = CLASSIC, NEWER, TWO_PHASE = "classic", "newer", "two-phase"
READERS = 2
WRITE_BACK_S = (0.2, 1.5)
TIMEOUTS_MS = (800, 1_600, 3_000)
SLACK_S = 1.5
FORGIVEN = frozenset({"lost-transaction", "aborted-read", "torn-transaction", "torn-offset", "wrong-answer"})
"""What may happen to transactions whose coordinators have lost their decisions."""
SEGMENT_BYTES = (600, 3_000, 1_000_000)
"""Small ones make many snapshots and indexes."""


class TransactionScenario(Scenario):
    """The course of one run with transactions."""

    def __init__(self, plan: Plan, cluster: SimCluster) -> None:
        super().__init__(plan, cluster)
        self.ledger = TransactionHistory(cluster.loop.time)
        self.clients: list[SimTransactional] = []
        self.zombies: list[SimTransactional] = []
        self.readers: list[CommittedReader] = []
        self.probe = TransactionProbe(cluster, INTERNAL_TOPICS if plan.loses_decisions else frozenset())
        self._offsets: dict[str, int] = {}

    def summary(self) -> str:
        """Return how many transactions became what."""
        return self.ledger.summary()

    @property
    def acked(self) -> int:
        """How many transactions were committed."""
        return sum(each.outcome is TransactionOutcome.COMMITTED for each in self.ledger.attempts)

    async def _start_clients(self) -> list[asyncio.Task[None]]:
        cluster = self.cluster
        admin = cluster.new_client()
        await admin.process.spawn(self._create_topic(admin))
        if self.plan.loses_decisions:
            self._writing_back = asyncio.ensure_future(self._write_back())
        self.probing = asyncio.ensure_future(self.probe.run())
        working = [self._start(transactional_id, self.clients) for transactional_id in IDS]
        working.append(self._start(cluster.loop.chance.choice((CLASSIC, NEWER)), self.zombies))
        for number in range(READERS):
            client = cluster.new_client(f"r{number + 1}" if self.plan.racks else "")
            reader = CommittedReader(client, f"reader {number}", self.places)
            self.readers.append(reader)
            client.process.spawn(reader.run())
        self._watcher = OffsetWatcher(cluster.new_client(), self.ledger, IDS)
        self._watcher.client.process.spawn(self._watcher.run())
        return working

    def _start(self, transactional_id: str, among: list[SimTransactional]) -> asyncio.Task[None]:
        client = self.cluster.new_client()
        calls = TransactionCalls(
            client, client.process.host, transactional_id, is_classic=transactional_id == CLASSIC
        )
        kind = SimTwoPhase if transactional_id == TWO_PHASE else SimTransactional
        timeout_ms = client.chance.choice(TIMEOUTS_MS)
        started = kind(calls, self.ledger, transactional_id, self.places, timeout_ms)
        among.append(started)
        return client.process.spawn(started.run())

    async def _write_back(self) -> None:
        """Write memory to the disks now and then, so that a power failure loses the end of logs only."""
        chance = self.cluster.loop.chance
        while self.cluster.loop.now < self.plan.until_s:
            await asyncio.sleep(chance.uniform(*WRITE_BACK_S))
            for node in self.cluster.nodes.values():
                node.disk.sync_all("/")

    async def _create_topic(self, admin: SimClient) -> None:
        configs = {"segment.bytes": str(self.cluster.loop.chance.choice(SEGMENT_BYTES))}
        if self.plan.loses_decisions:
            configs["flush.messages"] = "1"
        await admin.create_topic(TOPIC, self.plan.partitions, self.plan.replicas, configs)

    # After all has healed

    async def _finish(self, working: list[asyncio.Task[None]]) -> dict[TopicPartition, list[Read]]:
        """Stop the clients, end open transactions, and let every reader read to the end."""
        cluster, healed_s = self.cluster, self.cluster.loop.now
        for zombie in self.zombies:
            zombie.is_stopping = True
        if not await cluster.wait_until(lambda: not self._without_progress(healed_s), HEALED_WITHIN_S):
            for each in self._without_progress(healed_s):
                self._report("no-progress", f"{each.transactional_id}: {dict(each.errors)}")
        for client in self.clients:
            client.is_stopping = True
        _, unfinished = await asyncio.wait(working, timeout=HEALED_WITHIN_S)
        if unfinished:
            self._report("no-progress", f"{len(unfinished)} clients do not end")
        await asyncio.sleep(max(each.timeout_ms for each in self._everybody()) / 1000 + SLACK_S)
        if self.plan.loses_decisions:
            await self._abort_hanging()
        self.violations += [Violation("open-too-long", each) for each in self.probe.open_transactions()]
        for each in self._everybody():
            if isinstance(each, SimTwoPhase):
                await asyncio.wait([each.client.process.spawn(each.finish())], timeout=HEALED_WITHIN_S)
        logs = await self._read_everything()
        watching = self._watcher.client.process.spawn(self._watcher.last())
        await asyncio.wait([watching], timeout=HEALED_WITHIN_S)
        self._offsets = watching.result() if watching.done() else {}
        if not watching.done():
            self._report("no-progress", "the offsets of groups cannot be known")
        self.probing.cancel()
        return logs

    async def _abort_hanging(self) -> None:
        """Do what an operator does: `ottla txn hanging`, then `ottla txn abort` for each line."""
        client = self.cluster.new_client()
        operator = SimOperator(client)
        for hanging in self.probe.hanging():
            await asyncio.wait([client.process.spawn(operator.abort(hanging))], timeout=HEALED_WITHIN_S)
        await asyncio.sleep(SLACK_S)

    def _everybody(self) -> list[SimTransactional]:
        return [*self.clients, *self.zombies]

    def _without_progress(self, since_s: float) -> list[SimTransactional]:
        return [
            each
            for each in self.clients
            if not self.ledger.has_committed_since(each.transactional_id, since_s)
        ]

    async def _read_everything(self) -> dict[TopicPartition, list[Read]]:
        """Read all partitions from the start, with a reader that nothing happened to."""
        client = self.cluster.new_client()
        last = CommittedReader(client, "the last reader", self.places)
        self.readers.append(last)
        client.process.spawn(last.run())
        if not await self.cluster.wait_until(self._is_quiet, HEALED_WITHIN_S):
            self._report("not-healed", f"still at work: {self._what_is_missing()}")
        for reader in self.readers:
            reader.is_stopping = True
        self._watcher.is_stopping = True
        return last.records

    def _is_quiet(self) -> bool:
        """Every replica ends at the same offset, and readers are there."""
        return (
            self._is_whole()
            and all(
                len({log.log_end_offset for log in self._logs_of(place)}) == 1 for place in self._all_places()
            )
            and all(
                reader.positions[place] == self._end_of(place)
                for reader in self.readers
                for place in self.places
            )
        )

    def _is_whole(self) -> bool:
        return super()._is_whole() and all(
            each.leader >= 0 and set(each.isr) == set(each.replicas)
            for topic in self.cluster.image.topics.values()
            for each in topic.partitions
        )

    def _all_places(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, each.index)
            for topic in self.cluster.image.topics.values()
            for each in topic.partitions
        ]

    def _logs_of(self, place: TopicPartition) -> list[Log]:
        nodes = [self.cluster.nodes[node_id] for node_id in self._replicas_of(place)]
        brokers = [node.broker for node in nodes if node.broker is not None]
        return [log for broker in brokers if (log := broker.log_directories.get(place)) is not None]

    # The verdict

    def _judge(self, logs: dict[TopicPartition, list[Read]]) -> list[Violation]:
        found = [*self.probe.violations]
        for client in self._everybody():
            found += [Violation("wrong-answer", problem) for problem in client.problems]
        for reader in self.readers:
            found += reader.violations
            found += check_reader(reader.name, reader.records, reader.positions, logs)
        found += check_transactions(self.ledger, logs, self._offsets)
        if self.plan.loses_decisions:
            found = [each for each in found if each.name not in FORGIVEN]
        return found

    def _check_disks(self, logs: dict[TopicPartition, list[Read]]) -> None:
        for place in self._all_places():
            replicas: list[Replica] = []
            is_cleaned = self.plan.cleans_own_topics and place.topic in INTERNAL_TOPICS
            for node_id in self._replicas_of(place):
                node = self.cluster.nodes[node_id]
                directory = f"/data/{node.host}/{place}"
                if node.disk.exists(directory):
                    replicas.append(read_replica(node.disk, directory, node.host))
                    if not is_cleaned:
                        self.violations += check_aborted_index(node.disk, directory, replicas[-1])
            if is_cleaned:
                for each in replicas:
                    self.violations += check_compacted_replica(place, each)
                continue
            self.violations += check_replicas(place, replicas)
            if place in logs and committed_records(replicas[0]) != logs[place]:
                self._report("replicas-differ", f"{place}: readers see something else than the disk holds")
