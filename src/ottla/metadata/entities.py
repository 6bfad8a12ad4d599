"""The brokers, topics and partitions of an image: immutable values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from ottla.common.topic_names import is_internal
from ottla.metadata.records import Endpoint


class BrokerImage(NamedTuple):
    """One broker."""

    node_id: int
    epoch: int
    rack: str | None
    endpoints: tuple[Endpoint, ...]

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return where clients of `listener` reach this broker."""
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """Who holds one partition and who leads it; a leader of -1 means none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; `partitions[i]` is partition i."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...] = ()

    @property
    def is_internal(self) -> bool:
        """Return whether the brokers keep their own state in this topic."""
        return is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0
