"""Brokers, topics, sizes and offsets of a cluster at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.client.admin import ClusterInfo, LogDirectory
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.common.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """How many partitions of a topic lack something."""

    offline: int
    under_replicated: int
    not_preferred: int


@dataclass(frozen=True, slots=True)
class DiskView:
    """A log directory; the volume's sizes are None where they are not known."""

    path: str
    replicas: int
    log_bytes: int
    total_bytes: int | None
    usable_bytes: int | None
    error: str | None

    @property
    def used(self) -> float | None:
        """The used part of the volume, 0 to 1."""
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes


@dataclass(slots=True)
class Snapshot:
    """A cluster at one moment; sizes and offsets may be some seconds older than the rest."""

    info: ClusterInfo
    at_ms: int
    directories: dict[int, list[LogDirectory]] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each topic, all replicas together."""
    records: dict[str, int] = field(default_factory=dict)
    """Records of each topic: the difference of offsets, so it counts markers and compacted ones too."""
    rates: dict[str, float] = field(default_factory=dict)
    """Records per second written to each topic."""

    def measure(self) -> None:
        """Sum up sizes and records by topic."""
        sizes: dict[str, int] = {}
        for directories in self.directories.values():
            for directory in directories:
                for (topic, _), replica in directory.replicas.items():
                    sizes[topic] = sizes.get(topic, 0) + replica.size_bytes
        records: dict[str, int] = {}
        for at, end in self.ends.items():
            records[at.topic] = records.get(at.topic, 0) + end - self.starts.get(at, end)
        self.sizes, self.records = sizes, records

    def health_of(self, topic: TopicInfo) -> TopicHealth:
        """Return what the partitions of a topic lack."""
        offline = under = moved = 0
        for each in topic.partitions.values():
            offline += each.leader < 0
            under += len(each.isr) < len(each.replicas)
            moved += bool(each.replicas) and each.leader >= 0 and each.leader != each.replicas[0]
        return TopicHealth(offline, under, moved)

    def all_partitions(self) -> Iterator[tuple[TopicPartition, PartitionInfo]]:
        """Yield every partition."""
        for topic in self.info.topics.values():
            for index, each in topic.partitions.items():
                yield TopicPartition(topic.name, index), each

    def disks_of(self, node_id: int) -> list[DiskView]:
        """Return the log directories of a broker."""
        return [
            DiskView(
                each.path,
                len(each.replicas),
                sum(replica.size_bytes for replica in each.replicas.values()),
                each.total_bytes if each.total_bytes >= 0 else None,
                each.usable_bytes if each.usable_bytes >= 0 else None,
                None if each.error is None else str(each.error),
            )
            for each in self.directories.get(node_id, [])
        ]
