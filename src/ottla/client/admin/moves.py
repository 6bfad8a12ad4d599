"""Partitions on their way to other brokers: how far they are, and how fast they may go."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.cluster_admin import ClusterAdmin, MoveInfo
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster, PartitionInfo
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError

POLL_S = 1.0
SETTLED_WITHIN = 10
"""How often a broker is asked again that still shows a move that has ended."""
TOPIC_THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
BROKER_THROTTLES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
ALL = "*"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far all moves together are."""

    partitions_left: int
    partitions: int
    copied_bytes: int
    total_bytes: int
    cancelled: int = 0
    """How many partitions are back where they were; known when nothing is left."""
    silent: tuple[int, ...] = ()
    """The brokers that replicas move to and that do not answer."""


class MoveWatch:
    """Follows the moves in progress when it is created, until they end."""

    def __init__(self, cluster: Cluster, moves: Mapping[TopicPartition, MoveInfo]) -> None:
        self._admin = ClusterAdmin(cluster)
        self._moves = dict(moves)
        self._sizes: dict[TopicPartition, int] = {}

    async def progress(self) -> AsyncIterator[Progress]:
        """Yield how far they are, every second; the last one has nothing left."""
        while True:
            left = {at: each for at, each in (await self._admin.moves()).items() if at in self._moves}
            if not left:
                yield await self._end()
                return
            yield await self._measure(left)
            await asyncio.sleep(POLL_S)

    async def _settled(self) -> dict[TopicPartition, PartitionInfo]:
        """Return the partitions when every move has ended in the eyes of the broker that is asked, too."""
        for _ in range(SETTLED_WITHIN):
            partitions = (await self._admin.describe()).partitions
            found = {at: {*partitions[at].replicas} for at in self._moves if at in partitions}
            if all(held in (self._moves[at].before, {*self._moves[at].target}) for at, held in found.items()):
                break
            await asyncio.sleep(POLL_S / 2)
        return partitions

    async def _end(self) -> Progress:
        partitions = await self._settled()
        cancelled = {
            at
            for at, move in self._moves.items()
            if at in partitions and move.adding and set(partitions[at].replicas) == move.before
        }
        sizes = {at: self._sizes.get(at, 0) * len(each.adding) for at, each in self._moves.items()}
        copied = sum(size for at, size in sizes.items() if at not in cancelled)
        return Progress(0, len(self._moves), copied, sum(sizes.values()), len(cancelled))

    async def _measure(self, left: Mapping[TopicPartition, MoveInfo]) -> Progress:
        on_brokers: dict[int, list[TopicPartition]] = defaultdict(list)
        for at, move in left.items():
            for node_id in move.replicas:
                on_brokers[node_id].append(at)
        answers = {node: await self._sizes_on(node, partitions) for node, partitions in on_brokers.items()}
        found = {node: sizes or {} for node, sizes in answers.items()}
        adding = {node for move in left.values() for node in move.adding}
        silent = tuple(sorted(node for node in adding if answers[node] is None))
        copied = 0
        for at, move in left.items():
            sizes = {node: found[node].get(at, 0) for node in move.replicas}
            whole = max((sizes[node] for node in move.replicas if node not in move.adding), default=0)
            self._sizes[at] = max(self._sizes.get(at, 0), whole)
            copied += sum(min(sizes[node], self._sizes[at]) for node in move.adding)
        total = sum(self._sizes.get(at, 0) * len(each.adding) for at, each in self._moves.items())
        copied += sum(
            self._sizes.get(at, 0) * len(each.adding) for at, each in self._moves.items() if at not in left
        )
        return Progress(len(left), len(self._moves), copied, total, silent=silent)

    async def _sizes_on(
        self, node_id: int, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int] | None:
        """Return the sizes of these replicas, or None if the broker does not answer."""
        try:
            return await self._admin.log_sizes(node_id, partitions)
        except (KafkaError, ClientError):
            return None  # it is unavailable at the moment; the reassignments continue without it


async def throttle(
    cluster: Cluster, topics: Iterable[str], brokers: Iterable[int], bytes_per_second: int
) -> None:
    """Let replicas of these topics that are not in sync copy no faster than this, on each broker."""
    admin = TopicAdmin(cluster)
    for node_id in brokers:
        rate = dict.fromkeys(BROKER_THROTTLES, str(bytes_per_second))
        await admin.alter_broker_configs(node_id, set_to=rate)
    for topic in topics:
        await admin.alter_topic_configs(topic, set_to=dict.fromkeys(TOPIC_THROTTLES, ALL))


async def lift_throttle(cluster: Cluster, topics: Iterable[str] = ()) -> None:
    """Undo `throttle`, of these topics and of all others, unless something is still on its way."""
    info = await ClusterAdmin(cluster).describe()
    if info.moves:
        return
    found = await TopicAdmin(cluster).topics_config(TOPIC_THROTTLES[0], list(info.topics))
    throttled = {topic for topic, replicas in found.items() if replicas == ALL} | {*topics} & {*info.topics}
    if throttled:
        await unthrottle(cluster, sorted(throttled), info.alive)


async def unthrottle(cluster: Cluster, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Undo `throttle`."""
    admin = TopicAdmin(cluster)
    for topic in topics:
        await admin.alter_topic_configs(topic, unset=TOPIC_THROTTLES)
    for node_id in brokers:
        await admin.alter_broker_configs(node_id, unset=BROKER_THROTTLES)
