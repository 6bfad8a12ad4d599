"""The brokers, topics, partitions and users of an image, and a leader's ISR change: immutable values."""

from __future__ import annotations

import base64
from collections.abc import Container
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from ottla.common.topic_names import is_internal
from ottla.metadata.records import (
    BrokerRegistered,
    Endpoint,
    PartitionChanged,
    PartitionCreated,
    ScramCredentialChanged,
)
from ottla.security.scram import ScramCredential


class IsrChange(NamedTuple):
    """The in-sync replicas that a leader proposes, based on one state of its partition.

    Each comes with its broker's epoch (-1: unknown), so that a broker that restarted since is not admitted.
    """

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[tuple[int, int], ...]
    """(node_id, broker_epoch)"""


class BrokerImage(NamedTuple):
    """One broker. It is fenced while it has no session."""

    node_id: int
    epoch: int
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    fenced: bool = False
    shutting_down: bool = False
    directory_id: str = ""
    """The id of its first log directory; "" if it is unknown."""
    other_directories: tuple[str, ...] = ()
    """The ids of its other log directories."""

    @property
    def directories(self) -> frozenset[str]:
        """Return the ids of all its log directories; empty if they are unknown."""
        return frozenset(each for each in (self.directory_id, *self.other_directories) if each)

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the address of this broker for clients of `listener`."""
        return next((each for each in self.endpoints if each.listener == listener), None)

    @property
    def can_lead(self) -> bool:
        """Return whether this broker may lead partitions: it is alive and not shutting down."""
        return not (self.fenced or self.shutting_down)


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """The replicas of one partition and its leader; a leader of -1 means none.

    `elr` are the eligible leader replicas (KIP-966): out of sync, but with every committed record, because
    nothing is committed while fewer than min.insync.replicas are in sync. `last_known_elr` are those of them
    whose disk failed (decision 0064), followed, while there is no leader, by the last leader, even if it is
    one of them: when `isr` and `elr` are both empty, the first of it may lead. During a reassignment
    `replicas` contains the new replicas (`adding`) and the old ones (`removing`). `lost_directories` are
    replicas, with the ids of their former log directories, that restarted with another directory and have not
    been in sync since: they are empty, or outdated (decision 0078). `failed` are replicas whose broker may be
    alive, but not the log directory with this log (decision 0210); the log directory of those in `full` has
    no space: they serve reads, and others lead (decision 0300).
    """

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    lost_directories: tuple[tuple[int, str], ...] = ()
    failed: tuple[int, ...] = ()
    full: tuple[int, ...] = ()

    def offline(self, reachable: Container[int]) -> tuple[int, ...]:
        """Return the replicas that are not reachable, or whose log directory failed."""
        return tuple(each for each in self.replicas if each not in reachable or each in self.failed)

    @property
    def is_reassigning(self) -> bool:
        """Return whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """Return the replicas that the partition has after its reassignment."""
        if not self.removing:
            return self.replicas
        return tuple(each for each in self.replicas if each not in self.removing)


CLEAN, LAST_LEADER, UNCLEAN = "clean", "last-leader", "unclean"


def election_kind(before: PartitionImage, after: PartitionImage) -> str:
    """Return whether the new leader of `after` has every committed record.

    The last leader has all that was flushed, after a power failure everywhere. A replica that a reassignment
    added may join the ISR and lead in one change: the leader before vouched for it.
    """
    leader = after.leader
    if leader in (*before.isr, *before.elr):
        return CLEAN
    if before.leader >= 0 and leader in before.adding and not after.is_reassigning:
        return CLEAN
    if before.leader >= 0 and not {*before.isr}.isdisjoint(after.isr):
        return CLEAN
    is_last = leader in before.last_known_elr[:1] and leader not in dict(before.lost_directories)
    return LAST_LEADER if is_last else UNCLEAN


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; `partitions[i]` is partition i."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...] = ()

    @property
    def is_internal(self) -> bool:
        """Return whether the brokers store their own state in this topic."""
        return is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the first partition, after a reassignment."""
        return len(self.partitions[0].target) if self.partitions else 0


def broker_of(record: BrokerRegistered) -> BrokerImage:
    """Return the broker that the record creates."""
    return BrokerImage(*_BROKER_FIELDS(record))


def partition_created(topic_id: UUID, partition: PartitionImage) -> PartitionCreated:
    """Return the record that creates `partition`."""
    return PartitionCreated(topic_id, *_fields(partition))


def partition_changed(topic_id: UUID, partition: PartitionImage) -> PartitionChanged:
    """Return the record that sets a partition to `partition`."""
    return PartitionChanged(topic_id, *_fields(partition))


def partition_of(record: PartitionCreated | PartitionChanged) -> PartitionImage:
    """Return the partition that the record creates."""
    return PartitionImage(*_RECORD_FIELDS(record))


def scram_changed(user: str, mechanism: str, credential: ScramCredential) -> ScramCredentialChanged:
    """Return the record that sets a user's credential."""
    salt, stored_key, server_key = (
        base64.b64encode(each).decode()
        for each in (credential.salt, credential.stored_key, credential.server_key)
    )
    return ScramCredentialChanged(user, mechanism, salt, stored_key, server_key, credential.iterations)


def scram_credential_of(record: ScramCredentialChanged) -> ScramCredential:
    """Return the credential that the record sets."""
    salt, stored_key, server_key = map(base64.b64decode, (record.salt, record.stored_key, record.server_key))
    return ScramCredential(salt, stored_key, server_key, record.iterations)


# An image of a broker or a partition and the records about it have the same fields in the same order.
_BROKER_FIELDS = attrgetter(*(each.name for each in fields(BrokerRegistered)))
_fields = attrgetter(*(each.name for each in fields(PartitionImage)))
_RECORD_FIELDS = attrgetter(*(each.name for each in fields(PartitionChanged) if each.name != "topic_id"))
