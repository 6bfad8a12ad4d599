"""Topics, partitions and deletion of records.

Changes are asked for once, as config_admin.py explains.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsAssignment, CreatePartitionsTopic
from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kio.schema.create_topics.v7.response import CreatableTopicResult
from kio.schema.delete_records.v2 import DeleteRecordsRequest, DeleteRecordsResponse
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.delete_topics.v5 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.errors import ErrorCode

from ottla.client.admin.config_admin import ConfigAdmin
from ottla.client.cluster import Cluster, TopicInfo
from ottla.client.errors import error_for, raise_for
from ottla.client.offsets import OffsetAndTime, by_leader, list_offsets, offset_ranges
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import (
    InvalidReplicationFactor,
    KafkaError,
    NotController,
    TopicAlreadyExists,
)
from ottla.protocol.types import BrokerId, TopicName, i16, i32, i64

MAX_SERVICE_REPLICAS = 3


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before these offsets (-1: the high watermark); return the new start offsets.

    Doing it twice does no harm, so it is repeated while leaders move.
    """
    starts: dict[TopicPartition, int] = {}

    async def attempt() -> dict[TopicPartition, int]:
        left = [each for each in before if each not in starts]
        for node_id, partitions in (await by_leader(cluster, left)).items():
            connection = await cluster.broker(node_id)
            request = _request(cluster, {each: before[each] for each in partitions})
            response = await connection.request(request, DeleteRecordsResponse)
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    if each.error_code:
                        cluster.forget(topic.name)
                    raise_for(each.error_code, str(partition))
                    starts[partition] = each.low_watermark
        return starts

    return await cluster.retrying(attempt)


def _request(cluster: Cluster, before: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for (topic, index), offset in before.items():
        topics.setdefault(topic, []).append(
            DeleteRecordsPartition(partition_index=i32(index), offset=i64(offset))
        )
    return DeleteRecordsRequest(
        topics=tuple(
            DeleteRecordsTopic(name=TopicName(name), partitions=tuple(each)) for name, each in topics.items()
        ),
        timeout=cluster.broker_timeout,
    )


async def create_compacted_topic(cluster: Cluster, name: str, partitions: int = 1) -> bool:
    """Create a service's own topic, with up to 3 replicas; return False if it exists already."""
    for replicas in range(min(MAX_SERVICE_REPLICAS, len(cluster.brokers)), 0, -1):
        try:
            await TopicAdmin(cluster).create_topic(
                name,
                partitions=partitions,
                replication_factor=replicas,
                configs={"cleanup.policy": "compact"},
            )
        except TopicAlreadyExists:
            return False
        except InvalidReplicationFactor:  # a broker has stopped since
            if replicas == 1:
                raise
        else:
            return True
    raise InvalidReplicationFactor("no broker is known")


Outcome = TypeVar("Outcome")

_GONE = frozenset({ErrorCode.unknown_topic_or_partition})


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made; -1 leaves a count to the broker's configuration.

    `replicas` says which brokers hold each partition, the preferred leader first, in place of both counts.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    replicas: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as the broker made it; counts are -1 where an old broker does not say."""

    name: str
    topic_id: uuid.UUID | None
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """All of its configs, defaults included; empty where the broker does not say."""


class TopicAdmin(ConfigAdmin):
    """Asks for topics and their configs, and for changes to them."""

    async def list_topics(self) -> dict[str, TopicInfo]:
        """Return every topic by name, internal ones included."""
        topics = await self.cluster.retrying(lambda: self.cluster.refresh(None))
        return dict(sorted(topics.items()))

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """Return the topics of these names; raise UnknownTopicOrPartition if there is no such topic."""
        topics = await self.cluster.retrying(lambda: self.cluster.refresh(names))
        return {name: topics[name] for name in names}

    async def offset_ranges(self, topic: TopicInfo) -> dict[int, tuple[int, int]]:
        """Return the first and the end offset of each partition of a topic that has a leader."""
        led = [
            TopicPartition(topic.name, each.index) for each in topic.partitions.values() if each.leader >= 0
        ]
        ranges = await offset_ranges(self.cluster, led)
        return {each.partition: found for each, found in ranges.items()}

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTime]:
        """Return the offset of a timestamp for each partition.

        The timestamp is in milliseconds, for the first record at or after it (offset -1 if there is none);
        or EARLIEST (-2), or LATEST (-1).
        """
        return await list_offsets(self.cluster, wanted, isolation_level=int(read_committed))

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; -1 leaves a count to the broker's configuration."""
        topic = NewTopic(name, partitions, replication_factor, configs or {})
        return _only(await self.create_topics([topic], validate_only=validate_only))

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; return each, or its error."""
        request = CreateTopicsRequest(
            topics=tuple(map(_creatable, topics)),
            timeout=self.cluster.broker_timeout,
            validate_only=validate_only,
        )

        async def attempt(is_lost: bool) -> dict[str, CreatedTopic | KafkaError]:
            connection = await self.cluster.controller()
            response = await connection.request(request, CreateTopicsResponse)
            _check_controller(each.error_code for each in response.topics)
            return {
                each.name: error_for(each.error_code, _creation_error(each, is_lost))
                if each.error_code
                else _created(each)
                for each in response.topics
            }

        return await self._change(attempt, "the topics were not created")

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        _only(await self.delete_topics([name]))

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics and their records; return the error of each, or None."""
        request = DeleteTopicsRequest(
            topic_names=tuple(map(TopicName, names)), timeout=self.cluster.broker_timeout
        )

        async def attempt(is_lost: bool) -> dict[str, KafkaError | None]:
            connection = await self.cluster.controller()
            response = await connection.request(request, DeleteTopicsResponse)
            _check_controller(each.error_code for each in response.responses)
            return {
                each.name or "": error_for(each.error_code, each.error_message)
                if each.error_code and not (is_lost and each.error_code in _GONE)
                else None
                for each in response.responses
            }

        outcomes = await self._change(attempt, "the topics were not deleted")
        for name in outcomes:
            self.cluster.forget(name)
        return outcomes

    async def create_partitions(
        self,
        name: str,
        total: int,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase a topic to `total` partitions; `replicas` places each new one on brokers."""
        new = tuple(
            CreatePartitionsAssignment(broker_ids=tuple(map(BrokerId, each))) for each in replicas or ()
        )
        topic = CreatePartitionsTopic(name=TopicName(name), count=i32(total), assignments=new or None)
        request = CreatePartitionsRequest(
            topics=(topic,), timeout=self.cluster.broker_timeout, validate_only=validate_only
        )

        async def attempt(is_lost: bool) -> None:
            connection = await self.cluster.controller()
            response = await connection.request(request, CreatePartitionsResponse)
            result = response.results[0]
            if is_lost and result.error_code == ErrorCode.invalid_partitions:
                found = await self.cluster.refresh([name])
                if len(found[name].partitions) == total:
                    return
            raise_for(result.error_code, result.error_message)

        await self._change(attempt, f"{name} did not get its partitions")
        self.cluster.forget(name)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(topic.name),
        num_partitions=i32(-1 if topic.replicas else topic.partitions),
        replication_factor=i16(-1 if topic.replicas else topic.replication_factor),
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=i32(index), broker_ids=tuple(map(BrokerId, brokers)))
            for index, brokers in enumerate(topic.replicas)
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()),
    )


def _created(result: CreatableTopicResult) -> CreatedTopic:
    configs = {each.name: each.value for each in result.configs or () if each.value is not None}
    return CreatedTopic(
        result.name, result.topic_id, result.num_partitions, result.replication_factor, configs
    )


def _creation_error(result: CreatableTopicResult, is_lost: bool) -> str | None:
    if is_lost and result.error_code == ErrorCode.topic_already_exists:
        return f"{result.error_message} (perhaps made by the first attempt, whose answer was lost)"
    return result.error_message


def _check_controller(codes: Iterable[ErrorCode]) -> None:
    if ErrorCode.not_controller in tuple(codes):
        raise NotController("another broker is the controller now")


def _only(outcomes: Mapping[str, Outcome | KafkaError]) -> Outcome:
    """Return the one outcome; raise it if it is an error."""
    (outcome,) = outcomes.values()
    if isinstance(outcome, KafkaError):
        raise outcome
    return outcome
