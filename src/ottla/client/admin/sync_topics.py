"""The admin client without asyncio: what it can do with topics, configs and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.bridge import Bridge
from ottla.client.cluster import TopicInfo
from ottla.client.config_admin import ConfigEntry
from ottla.client.offsets import OffsetAndTime
from ottla.client.topic_admin import CreatedTopic, NewTopic
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError


class TopicCalls:
    """What `Admin` can do with topics."""

    _bridge: Bridge
    _async: AsyncAdmin

    # Topics.

    def list_topics(self) -> dict[str, TopicInfo]:
        """Return every topic by name, internal ones included."""
        return self._bridge.run(self._async.list_topics())

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """Return the topics of these names; raise UnknownTopicOrPartition if there is no such topic."""
        return self._bridge.run(self._async.describe_topics(names))

    def offset_ranges(self, topic: TopicInfo) -> dict[int, tuple[int, int]]:
        """Return the first and the end offset of each partition of a topic that has a leader."""
        return self._bridge.run(self._async.offset_ranges(topic))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTime]:
        """Return, for each partition, the offset that its timestamp asks for.

        The timestamp is in milliseconds, for the first record at or after it (offset -1 if there is none);
        or EARLIEST (-2), or LATEST (-1).
        """
        return self._bridge.run(self._async.list_offsets(wanted, read_committed=read_committed))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; -1 leaves a count to the broker's configuration."""
        return self._bridge.run(
            self._async.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; return what became of each, or why it was refused."""
        return self._bridge.run(self._async.create_topics(topics, validate_only=validate_only))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and everything in it."""
        self._bridge.run(self._async.delete_topic(name))

    def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics and everything in them; return why each was refused, or None."""
        return self._bridge.run(self._async.delete_topics(names))

    def create_partitions(
        self,
        name: str,
        total: int,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Grow a topic to `total` partitions; `replicas` says which brokers hold each new one."""
        self._bridge.run(
            self._async.create_partitions(name, total, replicas=replicas, validate_only=validate_only)
        )

    # Configs.

    def topic_configs(self, name: str, *, documentation: bool = False) -> list[ConfigEntry]:
        """Return every config of a topic, defaults included, sorted by name."""
        return self._bridge.run(self._async.topic_configs(name, documentation=documentation))

    def broker_configs(self, node_id: int | None = None, *, documentation: bool = False) -> list[ConfigEntry]:
        """Return every config of a broker, or (None) those that were set for all brokers while they ran."""
        return self._bridge.run(self._async.broker_configs(node_id, documentation=documentation))

    def topics_config(self, key: str, topics: Sequence[str]) -> dict[str, str]:
        """Return the value of one config for each of many topics; those that are gone are left out."""
        return self._bridge.run(self._async.topics_config(key, topics))

    def alter_topic_configs(
        self,
        name: str,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some configs of a topic and put others back to their defaults; leave the rest alone."""
        self._bridge.run(
            self._async.alter_topic_configs(name, set_to=set_to, unset=unset, validate_only=validate_only)
        )

    def alter_broker_configs(
        self,
        node_id: int | None = None,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some configs of one broker, or (None) of all, while they run; reset others to defaults."""
        self._bridge.run(
            self._async.alter_broker_configs(node_id, set_to=set_to, unset=unset, validate_only=validate_only)
        )

    # Records.

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (-1: all that are committed); return where each starts."""
        return self._bridge.run(self._async.delete_records(before))
