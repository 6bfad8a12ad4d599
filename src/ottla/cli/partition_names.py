"""Partitions as they are typed: `orders` for all of a topic, `orders:3` for one."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cli.problem_kinds import UNKNOWN_TOPIC
from ottla.cli.problems import Problem
from ottla.client.admin.cluster_admin import ClusterInfo
from ottla.common.ids import TopicPartition
from ottla.common.near_names import did_you_mean


def partitions_named(info: ClusterInfo, names: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions that are meant, each once; raise Problem if there is no such one."""
    chosen: dict[TopicPartition, None] = {}
    for name in names:
        topic, colon, index = name.rpartition(":")
        if not colon:
            topic = name
        found = info.topics.get(topic)
        if found is None:
            hints = did_you_mean(topic, info.topics)
            hints.append("list them:  ottla topic list")
            raise Problem(f"there is no topic {topic!r}", *hints, kind=UNKNOWN_TOPIC)
        if colon and (not index.isdecimal() or int(index) not in found.partitions):
            raise Problem(f"{topic} has no partition {index!r}; it has {len(found.partitions)}")
        indexes = [int(index)] if colon else list(found.partitions)
        chosen.update(dict.fromkeys(TopicPartition(topic, each) for each in indexes))
    return list(chosen)
