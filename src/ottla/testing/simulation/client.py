"""A simulated client: finds leaders, and sends requests to them.

Brokers keep their addresses for a whole simulation: broker 1 is `b1:9092`. A client learns everything else
from the brokers, and refreshes it after an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from kio.schema.create_topics.v7 import CreateTopicsRequest
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import FetchRequest
from kio.schema.fetch.v12.request import FetchPartition, FetchTopic
from kio.schema.metadata.v12 import MetadataRequest
from kio.schema.metadata.v12.request import MetadataRequestTopic

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError, LeaderNotAvailable
from ottla.protocol.types import TopicName, i8, i16, i32, i64
from ottla.testing.simulation.loop import SimClock, SimLoop, SimProcess
from ottla.wire.connection import milliseconds
from ottla.wire.peers import PeerAddress, Peers

PORT = 9092
METADATA_VERSION, CREATE_TOPICS_VERSION, FETCH_VERSION = 12, 7, 12
TIMEOUT_MS = 1_500
RETRY_S = (0.02, 0.1)
FETCH_WAIT_MS = 500
FETCH_BYTES = 1 << 20
SHORT_BYTES = 200
"""Some fetches have small limits, so that they end within the available data."""


def host_of(node_id: int) -> str:
    """Return the host of a broker."""
    return f"b{node_id}"


class Leader(NamedTuple):
    """Who leads a partition, and since which epoch."""

    node_id: int
    epoch: int


class SimClient:
    """One client process on a host of its own."""

    def __init__(self, loop: SimLoop, host: str, node_ids: Sequence[int], rack: str = "") -> None:
        self.process = SimProcess(loop, host)
        self.loop = loop
        self.chance = loop.chance
        self.rack = rack
        self.peers = Peers(-1, lambda node_id: PeerAddress(host_of(node_id), PORT, 0), SimClock(loop))
        self._node_ids = tuple(node_ids)
        self._leaders: dict[TopicPartition, Leader] = {}
        self._epochs: dict[TopicPartition, int] = {}
        """The newest known epoch: a broker that is cut off may still name an older leader."""

    async def leader(self, place: TopicPartition) -> Leader:
        """Return the leader of a partition; LeaderNotAvailable if it has none."""
        found = self._leaders.get(place)
        if found is None:
            await self._refresh(place.topic)
            found = self._leaders.get(place)
            if found is None:
                raise LeaderNotAvailable(str(place))
        return found

    def forget(self, place: TopicPartition) -> None:
        """Refresh the leader of the partition."""
        self._leaders.pop(place, None)

    async def pause(self) -> None:
        """Wait a moment before the next attempt."""
        await asyncio.sleep(self.chance.uniform(*RETRY_S))

    def any_node(self) -> int:
        """Return some broker."""
        return self.chance.choice(self._node_ids)

    async def call(self, node_id: int, api_key: int, version: int, request: Any, channel: str = "") -> Any:
        """Send a request and return the response; KafkaError if there is none."""
        return await self.peers.call(
            node_id, api_key, version, request, timeout_ms=TIMEOUT_MS, channel=channel
        )

    async def fetch(
        self,
        node_id: int,
        place: TopicPartition,
        offset: int,
        leader_epoch: int,
        reader: str,
        isolation_level: int = 0,
    ) -> Any:
        """Fetch once from a partition; return its part of the response, or None if there is none."""
        partition = FetchPartition(
            partition=i32(place.partition),
            current_leader_epoch=i32(leader_epoch),
            fetch_offset=i64(offset),
            partition_max_bytes=i32(self.chance.choice((SHORT_BYTES, FETCH_BYTES))),
        )
        request = FetchRequest(
            max_wait=milliseconds(FETCH_WAIT_MS),
            min_bytes=i32(1),
            max_bytes=i32(FETCH_BYTES),
            isolation_level=i8(isolation_level),
            topics=(FetchTopic(topic=TopicName(place.topic), partitions=(partition,)),),
            forgotten_topics_data=(),
            rack_id=self.rack,
        )
        channel = f"{reader}-{place.partition}"
        response = await self.call(node_id, ApiKey.FETCH, FETCH_VERSION, request, channel)
        if response.error_code is not ErrorCode.none or not response.responses:
            return None
        return response.responses[0].partitions[0]

    async def create_topic(
        self, name: str, partitions: int, replicas: int, configs: dict[str, str] | None = None
    ) -> None:
        """Create a topic, however often that has to be tried."""
        topic = CreatableTopic(
            name=TopicName(name),
            num_partitions=i32(partitions),
            replication_factor=i16(replicas),
            assignments=(),
            configs=tuple(
                CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
            ),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout=milliseconds(TIMEOUT_MS))
        while True:
            try:
                response = await self.call(
                    self.any_node(), ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request
                )
                if response.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
                    return
            except KafkaError:
                pass
            await self.pause()

    async def _refresh(self, topic: str) -> None:
        request = MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=TopicName(topic)),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        response = await self.call(self.any_node(), ApiKey.METADATA, METADATA_VERSION, request)
        for found in response.topics:
            for each in found.partitions:
                place = TopicPartition(topic, each.partition_index)
                if each.leader_id >= 0 and each.leader_epoch >= self._epochs.get(place, 0):
                    self._leaders[place] = Leader(each.leader_id, each.leader_epoch)
                    self._epochs[place] = each.leader_epoch
