"""What a mirror copies beside records: topics with their configs, ACLs, and the offsets of groups."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ottla.client import Admin, Consumer, TopicPartition
from ottla.client.admin.acls import Acl
from ottla.connect.config.keys import any_of
from ottla.protocol.errors import GroupIdNotFound, KafkaError

log = logging.getLogger(__name__)

OFFSET_HEADER = "ottla.mirror.offset"
SKIPPED_CONFIGS = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "message.timestamp.difference.max.ms",
)
INTERNAL = re.compile(r"__.*|.*\.internal|connect-(configs|offsets|status)|_schemas")
_OWN = frozenset({"alias", "bootstrap.servers"})


def client_options(config: Mapping[str, str], side: str, role: str) -> dict[str, Any]:
    """Return the options of a client of one cluster: `SIDE.cluster.NAME`, and `SIDE.ROLE.NAME` over them."""
    found: dict[str, Any] = {"bootstrap.servers": config[f"{side}.cluster.bootstrap.servers"]}
    for prefix in (f"{side}.cluster.", f"{side}.{role}."):
        found |= {
            key[len(prefix) :]: value
            for key, value in config.items()
            if key.startswith(prefix) and key[len(prefix) :] not in _OWN
        }
    return found


class MirrorSync:
    """Copies topics, ACLs and the offsets of groups."""

    def __init__(
        self, settings: Mapping[str, Any], config: Mapping[str, str], mirrored: Callable[[str], str]
    ) -> None:
        self._settings = settings
        self._target = client_options(config, "target", "consumer")
        self._admins = tuple(Admin(**client_options(config, side, "admin")) for side in ("source", "target"))
        self._mirrored = mirrored
        self._seen: dict[TopicPartition, list[tuple[int, int]]] = {}
        self._problems: set[str] = set()
        self.topics: dict[str, int] = {}
        """The topics to copy, and how many partitions each has."""
        self.topic_ids: dict[str, str] = {}
        """The ids of those topics, as far as the source cluster has ids."""

    def sync(self) -> None:
        """Look at the source, and change the target."""
        self._sync_topics()
        if self._settings["sync.topic.acls.enabled"]:
            self._sync_acls()
        if self._settings["sync.group.offsets.enabled"]:
            self._sync_groups()

    def look_at_ids(self) -> None:
        """Look whether topics were deleted, or created again."""
        listed = self._admins[0].list_topics()
        self.topics = {name: count for name, count in self.topics.items() if name in listed}
        self.topic_ids = {name: str(listed[name].topic_id) for name in self.topics if listed[name].topic_id}

    def _sync_topics(self) -> None:
        source, target = self._admins
        wanted, excluded = (any_of(self._settings[key]) for key in ("topics", "topics.exclude"))
        alias = self._settings["source.cluster.alias"] + self._settings["replication.policy.separator"]
        chosen = {
            name: info
            for name, info in source.list_topics().items()
            if wanted(name)
            and not excluded(name)
            and not INTERNAL.fullmatch(name)
            and not name.startswith(alias)
        }
        self.topics = {name: len(info.partitions) for name, info in chosen.items()}
        self.topic_ids = {name: str(info.topic_id) for name, info in chosen.items() if info.topic_id}
        there = target.list_topics()
        for topic, count in self.topics.items():
            name = self._mirrored(topic)
            configs = _configs(source, topic)
            if name not in there:
                target.create_topic(name, partitions=count, configs=configs)
                continue
            if len(there[name].partitions) < count:
                target.create_partitions(name, count)
            if self._settings["sync.topic.configs.enabled"]:
                stored = _configs(target, name)
                changed = {key: value for key, value in configs.items() if stored.get(key) != value}
                if changed:
                    target.alter_topic_configs(name, set_to=changed)

    def _sync_acls(self) -> None:
        """Create the ACLs of the copied topics; what allows writing is not copied: the mirror writes."""
        source, target = self._admins
        try:
            found = source.describe_acls(resource_type="topic", pattern="literal")
            wanted = [each for acl in found if (each := self._mirrored_acl(acl)) is not None]
            there = set(target.describe_acls(resource_type="topic", pattern="literal")) if wanted else set()
            new = [each for each in wanted if each not in there]
            errors = [error for error in (target.create_acls(new) if new else []) if error is not None]
        except KafkaError as failure:
            errors = [failure]
        for error in errors:
            text = f"ACLs are not copied: {error}"
            if text not in self._problems:
                self._problems.add(text)
                log.warning("%s", text)

    def _mirrored_acl(self, acl: Acl) -> Acl | None:
        """Return the ACL for the mirror, as MirrorMaker 2 makes it."""
        if acl.resource_name not in self.topics:
            return None
        allows, operation = acl.permission.lower() == "allow", acl.operation.lower()
        if allows and operation == "write":
            return None
        if allows and operation == "all":
            acl = replace(acl, operation="read")
        return replace(acl, resource_name=self._mirrored(acl.resource_name))

    def _sync_groups(self) -> None:
        """Commit each group's place in the mirror: behind the copy of the last record that it has read."""
        source, target = self._admins
        wanted, excluded = (any_of(self._settings[key]) for key in ("groups", "groups.exclude"))
        for group in source.list_groups():
            name = group.group_id
            if not wanted(name) or excluded(name):
                continue
            if name.startswith(("connect-", "spark-")):
                continue
            moved: dict[TopicPartition, int] = {}
            for place, committed in source.group_offsets(name).items():
                if place.topic in self.topics:
                    found = self._translated(place, committed.offset)
                    if found is not None:
                        moved[TopicPartition(self._mirrored(place.topic), place.partition)] = found
            if moved and not _has_members(target, name):
                current = {place: each.offset for place, each in target.group_offsets(name).items()}
                ahead = {place: offset for place, offset in moved.items() if current.get(place, -1) < offset}
                if ahead:
                    target.alter_group_offsets(name, ahead)

    def _translated(self, place: TopicPartition, offset: int) -> int | None:
        """Return the offset in the mirror behind the last record before `offset` at the source."""
        pairs = self._seen.setdefault(place, [])
        mirror = TopicPartition(self._mirrored(place.topic), place.partition)
        with Consumer(
            **self._target,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([mirror])
            end = consumer.end_offsets([mirror])[mirror]
            consumer.seek(mirror, pairs[-1][1] + 1 if pairs else consumer.beginning_offsets([mirror])[mirror])
            while consumer.position(mirror) < end:
                for records in consumer.getmany(timeout_ms=500).values():
                    for each in records:
                        header = dict(each.headers).get(OFFSET_HEADER)
                        if header is not None:
                            _note(pairs, int(header), each.offset)
        at = bisect_right(pairs, offset - 1, key=lambda pair: pair[0])
        return pairs[at - 1][1] + 1 if at else None


def _note(pairs: list[tuple[int, int]], at_source: int, at_mirror: int) -> None:
    """Take where a record is; a smaller offset than before is of a topic that was created again."""
    if pairs and at_source <= pairs[-1][0]:
        pairs.clear()
    pairs.append((at_source, at_mirror))


def _configs(admin: Any, topic: str) -> dict[str, str]:
    """Return the configs that a topic has of its own."""
    from ottla.common.config.declaration import ConfigSource

    return {
        each.name: each.value
        for each in admin.topic_configs(topic)
        if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
        and each.value is not None
        and each.name not in SKIPPED_CONFIGS
    }


def _has_members(admin: Any, group: str) -> bool:
    try:
        return bool(admin.describe_group(group).members)
    except GroupIdNotFound:
        return False
