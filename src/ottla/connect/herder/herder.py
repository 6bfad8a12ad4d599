"""A worker's herder: follows Connect's three topics, and takes part in the group of workers.

    configs topic ---> ClusterState --+
    group ------> what is ours -------+--> TaskRunner --> engine
    engine -----> events -------------+         \\-----> status topic, offsets topic

The group's leader also plans the tasks of connectors, and is the one that writes to the configs topic.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.group_membership import GroupMembership, GroupOptions
from ottla.common.clock import Clock, SystemClock
from ottla.connect.group.assignor import assign
from ottla.connect.group.protocol import (
    CONNECTOR,
    PROTOCOL,
    PROTOCOL_TYPE,
    TaskId,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from ottla.connect.herder.cluster_state import Change, ClusterState
from ottla.connect.herder.statuses import Statuses
from ottla.connect.herder.task_planner import TaskPlanner
from ottla.connect.herder.task_runner import TaskRunner
from ottla.connect.herder.topic_table import TopicTable
from ottla.connect.options import WorkerOptions
from ottla.connect.plugins import Plugins

log = logging.getLogger(__name__)

OFFSETS_PARTITIONS, STATUS_PARTITIONS = 25, 5


class Herder:
    """The herder of one worker."""

    def __init__(self, options: WorkerOptions, plugins: Plugins, clock: Clock | None = None) -> None:
        self.options = options
        self.plugins = plugins
        self.state = ClusterState()
        self.statuses = Statuses()
        self.offsets: dict[str, dict[str, Any]] = {}
        """Of each source: the offset by source partition."""
        self.url = ""
        self.worker_id = ""
        self.leader_url: str | None = None
        self.is_leader = False
        self.generation = -1
        self.ours: set[TaskId] = set()
        """The connectors and tasks that are assigned to this worker."""
        self.settled = asyncio.Event()
        """Set while this worker has an assignment: no rebalance is in progress."""
        self.owners: dict[TaskId, str] = {}
        """Where everything runs; the leader knows."""
        self.rebalances = 0
        self.cluster = Cluster(options=options.client, waits_for_brokers=True)
        self.configs = self._table("config.storage.topic", "connect-configs", 1, self._config)
        self.offset_table = self._table(
            "offset.storage.topic", "connect-offsets", OFFSETS_PARTITIONS, self._offset
        )
        self.status_table = self._table(
            "status.storage.topic", "connect-status", STATUS_PARTITIONS, self._status
        )
        self.planner = TaskPlanner(self)
        self.runner = TaskRunner(self, clock or SystemClock())
        self._group = GroupMembership(
            self.cluster,
            GroupOptions(
                options.group_id,
                PROTOCOL_TYPE,
                PROTOCOL,
                options.number("session.timeout.ms", 10_000),
                options.number("rebalance.timeout.ms", 60_000),
                options.number("heartbeat.interval.ms", 3_000),
            ),
            self,
        )
        self._parts = AsyncExitStack()
        self._started = False

    def _table(self, key: str, default: str, partitions: int, take: Any) -> TopicTable:
        return TopicTable(self.cluster, self.options.setting(key, default), partitions, take)

    # Life.

    async def start(self, url: str) -> None:
        """Read the topics, join the group, and begin to work."""
        self.url = url
        self.worker_id = url.partition("://")[2].rstrip("/")
        try:
            await self.cluster.start()
            self._parts.push_async_callback(self.cluster.close)
            for table in (self.configs, self.offset_table, self.status_table):
                await table.start()
                self._parts.push_async_callback(table.stop)
            for name, level in self.state.loggers.items():
                logging.getLogger(name).setLevel(level)
            self._started = True
            self.runner.start()
            self.planner.start()
            self._group.start()
            await self.settled.wait()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all tasks, leave the group, and close everything."""
        self.ours = set()
        await self.planner.stop()
        await self.runner.stop()
        await self._group.stop()
        await self._parts.aclose()

    # What the topics say.

    def _config(self, key: str, value: Any, offset: int) -> None:
        change = self.state.apply(key, value, offset)
        if change is not None and self._started:
            self._changed(change)

    def _offset(self, key: str, value: Any, offset: int) -> None:
        try:
            name, partition = json.loads(key)
        except ValueError:
            return
        text = json.dumps(partition, sort_keys=True, separators=(",", ":"))
        if value is None:
            self.offsets.get(name, {}).pop(text, None)
        else:
            self.offsets.setdefault(name, {})[text] = value

    def _status(self, key: str, value: Any, offset: int) -> None:
        self.statuses.apply(key, value)

    def _changed(self, change: Change) -> None:
        if change.kind == "restart":
            self.runner.restart(change.name, change.detail)
        elif change.kind == "logger":
            logging.getLogger(change.name).setLevel(change.detail)
        elif change.kind == "removed" or change.detail is True:
            self._group.rejoin()  # there is more or less to run
        if change.kind in ("connector", "target"):
            self.runner.report(change.name)
            if self.is_leader:
                self.planner.due(change.name)
        if change.kind in ("removed", "tasks"):
            self.runner.removed(change.name)
        self.runner.wake()

    # The group: see GroupEvents in client/group_membership.py.

    async def group_metadata(self) -> bytes:
        """Return the metadata to join with; a rebalance begins."""
        self.settled.clear()
        await self.configs.read_to_end()
        return encode_metadata(WorkerMetadata(f"{self.url}/", self.state.offset, frozenset(self.ours)))

    async def assign(self, members: Mapping[str, bytes], leader: str) -> dict[str, bytes]:
        """Return the assignments of all workers."""
        await self.configs.read_to_end()
        workers = {member: decode_metadata(metadata) for member, metadata in members.items()}
        made = assign(workers, self.state.work(), leader, self.state.offset)
        self.owners = {
            what: worker.url.rstrip("/")
            for member, worker in workers.items()
            for what in (worker.running | made[member].assigned) - made[member].revoked
        }
        return {member: encode_assignment(assignment) for member, assignment in made.items()}

    async def on_assigned(self, encoded: bytes, generation: int, member_id: str) -> bool:
        """Stop what is revoked, and join again; or start what is new."""
        assignment = decode_assignment(encoded)
        self.generation = generation
        self.leader_url = assignment.leader_url.rstrip("/") or None
        self.is_leader = assignment.leader == member_id
        self.rebalances += 1
        self.ours = (self.ours | assignment.assigned) - assignment.revoked
        self.runner.wake()
        await self.runner.until_stopped({each for each in assignment.revoked if each.task != CONNECTOR})
        self.runner.unassigned(assignment.revoked)
        if assignment.revoked:
            return True
        for name in {each.connector for each in assignment.assigned if each.task == CONNECTOR}:
            self.runner.report(name)
        if self.is_leader:
            for name in self.state.connectors:
                self.planner.due(name)
        self.settled.set()
        ours = ", ".join(map(str, sorted(self.ours)))
        log.info("generation %d: this worker runs %s", generation, ours or "nothing")
        return False

    async def on_rejoin(self) -> None:
        """Keep the tasks: another worker gets them only after this one has given them up."""

    async def on_lost(self) -> None:
        """Stop all tasks: this worker was removed from the group."""
        log.warning("this worker is not in the group any more: it stops its tasks and joins again")
        self.settled.clear()
        self.leader_url, self.is_leader, self.ours = None, False, set()
        self.runner.wake()
        await self.runner.until_stopped(None)
