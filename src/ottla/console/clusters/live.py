"""Connections to one cluster, and the newest snapshot of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from ottla.client.admin import AdminOptions, AsyncAdmin, BrokerInfo, ClusterInfo
from ottla.client.admin.health import BrokerReport
from ottla.client.admin.lag import with_leader
from ottla.client.client_options import ClientOptions
from ottla.client.errors import ClientError
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition
from ottla.common.lag import Lag
from ottla.console.clusters.snapshot import Snapshot
from ottla.console.options import ClusterOptions
from ottla.protocol.errors import ClusterAuthorizationFailed, KafkaError

PATIENCE_MS = 5_000
FRESH_MS = 1_000
COST_FACTOR = 10
"""A snapshot that took long to make is used for so many times as long."""
CLIENT_ID = "ottla-console"


class LiveCluster:
    """One cluster as one principal sees it; use it as `async with LiveCluster(options)`."""

    def __init__(self, options: ClusterOptions, clock: Clock | None = None) -> None:
        self.options = options
        self.name = options.name
        self.clock = clock or SystemClock()
        self.admin = AsyncAdmin.with_options(_admin_options(options.client))
        self.lags: Mapping[str, Lag] = {}
        """The lag of each group, as of the last sample."""
        self.reports: Mapping[int, BrokerReport] = {}
        """What each broker says of itself, as of the last sample; Apache Kafka's say nothing."""
        self.problem: str | None = None
        """Why the last sample failed; None: it did not."""
        self._snapshot: Snapshot | None = None
        self._cost_ms = 0
        self._refreshing = asyncio.Lock()
        self._producer: AsyncProducer | None = None

    async def __aenter__(self) -> Self:
        await self.admin.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.close(1.0)
        await self.admin.close()

    @property
    def last(self) -> Snapshot | None:
        """The newest snapshot, however old."""
        return self._snapshot

    def changed(self) -> None:
        """Make the next snapshot a fresh one: something was changed."""
        if self._snapshot is not None:
            self._snapshot.at_ms = 0

    async def snapshot(self) -> Snapshot:
        """Return a snapshot that is fresh enough; ask the cluster if there is none."""
        found = self._snapshot
        if found is not None and self._age_ms(found) < max(FRESH_MS, COST_FACTOR * self._cost_ms):
            return found
        async with self._refreshing:  # those that wait here find the answer to the first question
            found = self._snapshot
            if found is not None and self._age_ms(found) < max(FRESH_MS, COST_FACTOR * self._cost_ms):
                return found
            return await self._refresh()

    async def full_snapshot(self) -> Snapshot:
        """Fetch everything, sizes and offsets too; values that cannot be fetched stay as they were."""
        async with self._refreshing:
            found = await self._refresh()
        led = [at for at, each in found.all_partitions() if each.leader >= 0]
        cluster = self.admin.cluster
        ends = await list_offsets(cluster, dict.fromkeys(led, LATEST))
        starts = await list_offsets(cluster, dict.fromkeys(led, EARLIEST))
        found.ends = {at: each.offset for at, each in ends.items()}
        found.starts = {at: each.offset for at, each in starts.items()}
        try:
            found.directories = await self.admin.describe_log_dirs(found.info.alive)
        except (KafkaError, ClientError):
            pass  # a broker left a moment ago, or it may not be asked: sizes stay as they were
        found.measure()
        return found

    async def ends_of(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offsets of the partitions that exist and have a leader now."""
        there = await with_leader(self.admin.cluster, partitions)
        found = await list_offsets(self.admin.cluster, dict.fromkeys(there, LATEST))
        return {at: each.offset for at, each in found.items()}

    async def producer(self) -> AsyncProducer:
        """Return a producer on these connections."""
        if self._producer is None:
            options = ProducerOptions(client_id=CLIENT_ID, delivery_timeout_ms=20_000, linger_ms=0)
            producer = AsyncProducer.on(self.admin.cluster, options)
            await producer.start()
            self._producer = producer
        return self._producer

    async def _refresh(self) -> Snapshot:
        began = self.clock.mono_ms()
        try:
            info = await self.admin.describe_cluster()
        except ClusterAuthorizationFailed:
            info = await self._visible()
        before = self._snapshot
        found = Snapshot(info, self.clock.wall_ms())
        if before is not None:
            found.directories, found.starts, found.ends = before.directories, before.starts, before.ends
            found.sizes, found.records, found.rates = before.sizes, before.records, before.rates
        self._cost_ms = self.clock.mono_ms() - began
        self._snapshot = found
        return found

    async def _visible(self) -> ClusterInfo:
        """Return what a principal sees that may not describe the cluster: brokers, and its own topics."""
        topics = await self.admin.list_topics()
        cluster = self.admin.cluster
        brokers = {
            node_id: BrokerInfo(node_id, each.address, each.rack, True)
            for node_id, each in sorted(cluster.brokers.items())
        }
        return ClusterInfo(cluster.cluster_id or "", cluster.controller_id, brokers, topics)

    def _age_ms(self, snapshot: Snapshot) -> int:
        return self.clock.wall_ms() - snapshot.at_ms


def _admin_options(client: ClientOptions) -> AdminOptions:
    patient = replace(
        client,
        client_id=CLIENT_ID,
        default_api_timeout_ms=PATIENCE_MS,
        socket_connection_setup_timeout_ms=min(PATIENCE_MS, client.socket_connection_setup_timeout_ms),
    )
    return AdminOptions(**{name: getattr(patient, name) for name in patient.declared()})
