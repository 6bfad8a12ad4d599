"""The controller's requests and the type of its decisions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar
from uuid import UUID

from ottla.metadata.records import MetadataRecord
from ottla.protocol.errors import KafkaError

R = TypeVar("R")
DEFAULT = -1


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """The records to append, and one result per item of the request, in its order."""

    records: tuple[MetadataRecord, ...]
    results: tuple[R | KafkaError, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 stands for the broker's default.

    `assignments` are pairs of partition and brokers, for clients that assign replicas themselves.
    """

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """A topic by its name, or by its id."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new number of partitions of a topic; `assignments` are the replicas of the added ones."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class ConfigOperation(IntEnum):
    """How to change one config, with the numbers of the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One config to change; `operation` may be an invalid number."""

    key: str
    value: str | None
    operation: int = ConfigOperation.SET


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """The changes to one topic or broker, applied completely or not at all."""

    resource_type: int
    resource_name: str
    changes: tuple[ConfigChange, ...]
