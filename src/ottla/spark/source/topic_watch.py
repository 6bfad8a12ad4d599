"""Partitions and offsets of a query's topics, from the cluster."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Collection, Mapping

from ottla.client.cluster import Cluster, TopicInfo
from ottla.client.consumer.dedicated_connections import DedicatedConnections
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from ottla.protocol.fetch_client import FetchPartitionRequest, FetchSettings, Topic
from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.source.offsets import check_all_given
from ottla.spark.source.options import Bound, SourceOptions
from ottla.wire.calls import fetch

GRACE_MS = 10_000
OWN_TOPICS = "__ottla"
"""The prefix of our own topics, which no pattern matches."""


class TopicWatch:
    """The topics of one query."""

    def __init__(self, cluster: Cluster, options: SourceOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._lines = DedicatedConnections(cluster)
        self.topics: dict[str, TopicInfo] = {}
        """The existing topics; requested topics that do not exist are missing."""

    @property
    def topic_ids(self) -> dict[str, str]:
        """The id of each topic, if the broker returns it."""
        return {name: str(topic.topic_id) for name, topic in self.topics.items() if topic.topic_id}

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions to read."""
        assigned = self._options.topics.partitions
        found = [
            TopicPartition(name, index) for name, topic in self.topics.items() for index in topic.partitions
        ]
        return sorted(each for each in found if not assigned or each in assigned)

    async def refresh(self) -> None:
        """Refresh the metadata."""
        wanted = self._options.topics
        if wanted.pattern is not None:
            pattern = re.compile(wanted.pattern)
            found = await self._cluster.retrying(lambda: self._cluster.refresh(None), wait_for_brokers=True)
            self.topics = {
                name: topic
                for name, topic in found.items()
                if pattern.fullmatch(name) and not topic.is_internal and not name.startswith(OWN_TOPICS)
            }
            return
        names = wanted.names or {each.topic for each in wanted.partitions}
        self.topics = await self._cluster.retrying(lambda: self._existing(names), wait_for_brokers=True)

    async def _existing(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Return the topics that exist; errors but that of an absent topic are raised, or retried."""
        found: dict[str, TopicInfo] = {}
        for name, answer in (await self._cluster.refresh_some(names)).items():
            if isinstance(answer, TopicAuthorizationFailed):
                raise SparkError(
                    f"not authorized to describe topic {name}. The user of the query needs READ: "
                    f"ottla acl create --help"
                )
            if isinstance(answer, TopicInfo):
                found[name] = answer
            elif not isinstance(answer, UnknownTopicOrPartition):
                raise answer
        return found

    def check_all_there(self) -> None:
        """Raise if a topic or a partition that was named does not exist."""
        wanted = self._options.topics
        names = wanted.names or {each.topic for each in wanted.partitions}
        missing = sorted(names - self.topics.keys())
        if missing:
            listed = ", ".join(missing)
            raise SparkError(
                f"unknown topic {listed}. Create it first: ottla topic create {missing[0]} --partitions 3"
            )
        absent = sorted(wanted.partitions - set(self.partitions))
        if absent:
            raise SparkError(f"unknown partition {', '.join(map(str, absent))} in assign")

    async def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the current end offsets, for the isolation level."""
        return await self._offsets(dict.fromkeys(partitions, LATEST))

    async def beginnings(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of partitions."""
        return await self._offsets(dict.fromkeys(partitions, EARLIEST))

    async def offsets_at(
        self, bound: Bound, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the offsets of a bound."""
        if bound.offset is not None:
            return await self._offsets(dict.fromkeys(partitions, bound.offset))
        if bound.time_ms is not None:
            return await self._at_times(bound, dict.fromkeys(partitions, bound.time_ms))
        given = bound.offsets if bound.offsets is not None else bound.times_ms
        assert given is not None
        try:
            check_all_given(bound.option, given, partitions)
        except ValueError as error:
            raise WrongOption(bound.option, str(error).split(" ", 1)[1]) from None
        if bound.times_ms is not None:
            return await self._at_times(bound, bound.times_ms)
        named = {each: offset for each, offset in given.items() if offset < 0}
        return {**given, **await self._offsets(named)}

    async def first_offsets_since(
        self, time_ms: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record that is not older; partitions without one are missing."""
        found = await self._offsets(dict.fromkeys(partitions, time_ms))
        return {each: offset for each, offset in found.items() if offset >= 0}

    async def _at_times(
        self, bound: Bound, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        found = await self._offsets(times_ms)
        missing = [each for each, offset in found.items() if offset < 0]
        if not missing:
            return found
        if bound.option.startswith("starting") and not self._options.falls_back_to_latest:
            each = missing[0]
            raise WrongOption(
                bound.option,
                f"{each} has no record at or after {times_ms[each]}. To start at its end, set "
                "startingOffsetsByTimestampStrategy to latest",
            )
        return {**found, **await self.ends(missing)}

    async def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        level = self._options.isolation_level
        found = await self._cluster.retrying(
            lambda: list_offsets(self._cluster, wanted, isolation_level=level), wait_for_brokers=True
        )
        return {each: found[each].offset for each in wanted}

    async def wait_for_records(self, positions: Mapping[TopicPartition, int], wait_ms: int) -> None:
        """Return as soon as a partition has a record after its position, or after the timeout."""
        by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for each, offset in positions.items():
            topic = self.topics.get(each.topic)
            info = topic.partitions.get(each.partition) if topic else None
            if info is not None and info.leader >= 0:
                by_leader[info.leader][each] = offset
        if not by_leader:
            await asyncio.sleep(wait_ms / 1000)
            return
        waiting = [asyncio.ensure_future(self._wait_at(*one, wait_ms)) for one in by_leader.items()]
        try:
            await asyncio.wait(waiting, timeout=wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _wait_at(self, node_id: int, positions: Mapping[TopicPartition, int], wait_ms: int) -> None:
        connection = await self._lines.to(node_id)
        ids = {each.topic: self.topics[each.topic].topic_id for each in positions}
        topics: dict[Topic, dict[int, FetchPartitionRequest]] = defaultdict(dict)
        for (name, partition), offset in positions.items():
            topics[Topic(name, ids[name])][partition] = FetchPartitionRequest(offset, -1, 1)
        settings = FetchSettings(wait_ms, 1, 1, self._options.isolation_level)
        await fetch(connection, settings, topics, timeout_ms=wait_ms + GRACE_MS)
