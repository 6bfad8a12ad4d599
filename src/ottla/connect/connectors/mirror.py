"""Mirror: copies topics of another cluster, with their configs, their ACLs and the offsets of their groups.

The work of MirrorMaker 2, in one connector: records with keys, headers, timestamps and partitions; topics are
created, grown and configured as they are at the source; offsets of consumer groups are translated, so that a
group resumes in the mirror from its committed offsets. Either cluster may be Apache Kafka.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client import Admin, Consumer, KafkaError, TopicPartition
from ottla.client.errors import ClientError
from ottla.common.clock import SystemClock
from ottla.connect.config.keys import BOOLEAN, HIGH, LIST, LONG, LOW, ConfigKey, are_regexes, at_least
from ottla.connect.connectors.mirror_sync import OFFSET_HEADER, MirrorSync, client_options
from ottla.connect.data import schema as s
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Offsets, SourceConnector, SourceReader, partition_of

log = logging.getLogger(__name__)

BYTES = Schema(s.BYTES, optional=True)


EXCLUDED_TOPICS = [r".*[\-\.]internal", r".*\.replica", "__.*"]
EXCLUDED_GROUPS = ["console-consumer-.*", "connect-.*", "__.*"]
"""MirrorMaker 2's defaults."""


class MirrorSource(SourceConnector):
    """Copies topics from the cluster `source.cluster.*` to the worker's cluster."""

    keys = (
        ConfigKey(
            "source.cluster.alias",
            default="source",
            doc="Prefix of the names of mirrored topics.",
            importance=HIGH,
        ),
        ConfigKey("source.cluster.bootstrap.servers", doc="The cluster to copy.", importance=HIGH),
        ConfigKey("target.cluster.bootstrap.servers", doc="The worker's cluster.", importance=HIGH),
        ConfigKey("topics", LIST, [".*"], "Names or regular expressions of topics.", HIGH, are_regexes),
        ConfigKey("topics.exclude", LIST, EXCLUDED_TOPICS, "Topics to leave out.", check=are_regexes),
        ConfigKey("groups", LIST, [".*"], "Names or regular expressions of groups.", check=are_regexes),
        ConfigKey("groups.exclude", LIST, EXCLUDED_GROUPS, "Groups to leave out.", check=are_regexes),
        ConfigKey("replication.policy.separator", default=".", doc="Separator between alias and topic."),
        ConfigKey("identity.replication.policy", BOOLEAN, False, "Mirrored topics keep their names."),
        ConfigKey("sync.topic.configs.enabled", BOOLEAN, True, "Copy the configs of topics."),
        ConfigKey("sync.topic.acls.enabled", BOOLEAN, True, "Copy the ACLs of topics, except WRITE."),
        ConfigKey("sync.group.offsets.enabled", BOOLEAN, True, "Translate and commit the offsets of groups."),
        ConfigKey(
            "sync.interval.ms",
            LONG,
            10_000,
            "Interval of checks for changed topics and groups.",
            check=at_least(1),
        ),
        ConfigKey(
            "batch.max.records", LONG, 50_000, "Maximum records of a partition per batch.", LOW, at_least(1)
        ),
    )
    position_keys = (
        "source.cluster.bootstrap.servers",
        "source.cluster.alias",
        "identity.replication.policy",
    )

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check that the source cluster answers, and that no topic is copied onto itself."""
        same = config["source.cluster.bootstrap.servers"] == config.get("target.cluster.bootstrap.servers")
        if same and config.get("identity.replication.policy", "").lower() == "true":
            return {"identity.replication.policy": "a topic cannot be copied onto itself"}
        try:
            with Admin(
                **{**client_options(config, "source", "admin"), "default.api.timeout.ms": 10_000}
            ) as admin:
                admin.describe_cluster()
        except (KafkaError, ClientError, ValueError) as error:
            return {"source.cluster.bootstrap.servers": str(error)}
        return {}

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader."""
        return MirrorReader(dict(self.settings), self.config)

    def check_offsets(self, offsets: Offsets) -> None:
        """Check that offsets are of partitions."""
        for partition, offset in offsets.items():
            if not {"topic", "partition"} <= json.loads(partition).keys() or not isinstance(
                offset.get("offset"), int
            ):
                raise ConnectError(
                    'the offsets of a mirror: {"cluster", "topic", "partition"} {"offset": NUMBER}'
                )


class MirrorReader(SourceReader):
    """Reads partitions of another cluster; a source partition is one of them.

    An offset has the id of the topic: a topic that was deleted and created again is another one, and is read
    from its beginning.
    """

    def __init__(self, settings: dict[str, Any], config: Mapping[str, str]) -> None:
        self.settings = settings
        self.config = dict(config)
        self.source = client_options(config, "source", "consumer")
        self._looked_ms: int | None = None
        self._sync: MirrorSync | None = None

    def mirrored(self, topic: str) -> str:
        """Return the name of a topic in the mirror."""
        if self.settings["identity.replication.policy"]:
            return topic
        return (
            f"{self.settings['source.cluster.alias']}{self.settings['replication.policy.separator']}{topic}"
        )

    def _consumer(self) -> Consumer:
        return Consumer(
            **self.source,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )

    def latest(self, start: Offsets) -> Offsets:
        """Return how far the partitions can be read; look at topics, ACLs and groups now and then."""
        if self._sync is None:
            self._sync = MirrorSync(self.settings, self.config, self.mirrored)
        now_ms = SystemClock().mono_ms()
        if self._looked_ms is None or now_ms - self._looked_ms >= self.settings["sync.interval.ms"]:
            self._sync.sync()
            self._looked_ms = now_ms
        else:
            self._sync.look_at_ids()
        topics = self._sync.topics
        places = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        if not places:
            return start
        end = dict(start)
        with self._consumer() as consumer:
            firsts, lasts = consumer.beginning_offsets(places), consumer.end_offsets(places)
        for place in places:
            key = partition_of(
                cluster=self.settings["source.cluster.alias"], topic=place.topic, partition=place.partition
            )
            topic_id = self._sync.topic_ids.get(place.topic)
            found = self._end(place, start.get(key), topic_id, firsts[place], lasts[place])
            if found is not None:
                end[key] = found
        return end

    def _end(
        self,
        place: TopicPartition,
        before: dict[str, Any] | None,
        topic_id: str | None,
        first: int,
        last: int,
    ) -> dict[str, Any] | None:
        """Return where the next batch of a partition ends; None if there is nothing new."""
        at = 0 if before is None else before["offset"]
        if before is not None and is_other_topic(before, topic_id, last):
            log.error(
                "%s-%d of %s was deleted and created again: it is copied from its beginning, behind what the "
                "mirror has of the old one",
                place.topic,
                place.partition,
                self.settings["source.cluster.alias"],
            )
            at = -1
        reached = min(last, max(at, first) + self.settings["batch.max.records"])
        if reached <= at:
            return None
        return {"offset": reached} if topic_id is None else {"offset": reached, "topic.id": topic_id}

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return a part for each partition."""
        found = []
        for key, offset in sorted(end.items()):
            if start.get(key) != offset:
                place = json.loads(key)
                before = start.get(key, {})
                is_new = "topic.id" in before and before["topic.id"] != offset.get("topic.id")
                begin = 0 if is_new or before.get("offset", 0) > offset["offset"] else before.get("offset", 0)
                topic_id = offset.get("topic.id")
                if begin < offset["offset"]:
                    found.append((place["topic"], place["partition"], begin, offset["offset"], topic_id))
        return found

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the records of a range of a partition; each with its offset at the source in a header."""
        topic, partition, begin, end, topic_id = part
        place = TopicPartition(topic, partition)
        name = self.mirrored(topic)
        if not self._is_there(topic, topic_id):
            return
        with self._consumer() as consumer:
            consumer.assign([place])
            consumer.seek(place, begin)
            while consumer.position(place) < end:
                found = consumer.getmany(timeout_ms=500).get(place, [])
                if not found and not self._is_there(topic, topic_id):
                    return
                for each in found:
                    if each.offset >= end:
                        return
                    headers = [Header(key, BYTES, value) for key, value in each.headers]
                    headers.append(Header(OFFSET_HEADER, BYTES, str(each.offset).encode()))
                    yield Record(name, each.value, BYTES, each.key, BYTES, partition, each.timestamp, headers)

    def _is_there(self, topic: str, topic_id: str | None) -> bool:
        """Return whether the topic of a batch still exists; if it was deleted, its records cannot be read."""
        with Admin(**client_options(self.config, "source", "admin")) as admin:
            info = admin.list_topics().get(topic)
        found = None if info is None or info.topic_id is None else str(info.topic_id)
        if info is not None and (topic_id is None or found is None or found == topic_id):
            return True
        log.error("%s was deleted before all its records were copied", topic)
        return False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sync": None}


def is_other_topic(before: Mapping[str, Any], topic_id: str | None, last: int) -> bool:
    """Return whether a place is in another topic of the same name: by id, or because the log is shorter."""
    if topic_id is not None and "topic.id" in before:
        return bool(before["topic.id"] != topic_id)
    return last < int(before["offset"])
