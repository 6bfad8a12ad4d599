"""What a broker publishes about itself while its session is alive.

It is stored as JSON (in ZooKeeper: the data of the broker's ephemeral node):

    {"v":1,"endpoints":[["PLAINTEXT","10.0.0.1",9092,"PLAINTEXT"]],"rack":"eu-1a","incarnation_id":"...",
     "directory_id":"...","after_unclean_stop":false,"may_have_lost_records":true,"seems_whole":false,
     "wants_shutdown":false,"other_directories":[],"lost_replicas":[],"offline_replicas":[["<topic id>",[0]]],
     "full_replicas":[]}

A field with a default may be added; a reader ignores unknown fields, so that brokers of two versions can form
one cluster during an upgrade.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any
from uuid import UUID

from ottla.common.ids import parse_uuid, uuid_text
from ottla.metadata.records import Endpoint, MetadataError

GroupedReplicas = tuple[tuple[str, tuple[int, ...]], ...]
"""Partitions, as topic ids with indexes: a broker may have many thousands, and a registration is one node."""


def group_replicas(partitions: Iterable[tuple[UUID, int]]) -> GroupedReplicas:
    """Return partitions by topic."""
    found: dict[UUID, list[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, []).append(index)
    return tuple((uuid_text(topic_id), tuple(sorted(each))) for topic_id, each in found.items())


def ungroup_replicas(grouped: GroupedReplicas) -> Iterator[tuple[UUID, int]]:
    """Yield what `group_replicas` was given."""
    for topic_id, indexes in grouped:
        for index in indexes:
            yield parse_uuid(topic_id), index


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """What a broker publishes about itself."""

    endpoints: tuple[Endpoint, ...] = ()
    """Its addresses; empty while it is starting and not part of the cluster yet."""
    rack: str | None = None
    incarnation_id: str = ""
    """New with every start of the process."""
    directory_id: str = ""
    """The id of its first data directory, which only one process at a time can lock."""
    after_unclean_stop: bool = True
    """Whether it does not know its last high watermarks, because the process was killed."""
    may_have_lost_records: bool = True
    """Whether, in addition, its logs may have lost unflushed records, because the machine lost power."""
    seems_whole: bool = False
    """Whether they nevertheless seem complete: only the disk failed, and the machine kept running."""
    wants_shutdown: bool = False
    """Whether it requests that its leaderships are moved, because it is stopping or its disks are full."""
    other_directories: tuple[str, ...] = ()
    """The ids of its other data directories, those that are offline included."""
    lost_replicas: GroupedReplicas = ()
    """Replicas of which this start found no log in a directory that the cluster knows as this broker's."""
    offline_replicas: GroupedReplicas = ()
    """Replicas whose log is in a directory that failed, or that was not there at the start."""
    full_replicas: GroupedReplicas = ()
    """Replicas whose log is in a directory that is full, while others of this broker have space."""

    @property
    def directories(self) -> frozenset[str]:
        """Return the ids of all its data directories that are known."""
        return frozenset(each for each in (self.directory_id, *self.other_directories) if each)


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A live session, as all brokers see it."""

    node_id: int
    broker_epoch: int
    registration: BrokerRegistration


_NAMES = frozenset(each.name for each in fields(BrokerRegistration))


def encode_registration(registration: BrokerRegistration) -> bytes:
    """Return the registration as JSON."""
    return json.dumps({"v": 1, **asdict(registration)}, separators=(",", ":")).encode()


def decode_registration(payload: bytes) -> BrokerRegistration:
    """Return the registration that `encode_registration` wrote."""
    try:
        values: dict[str, Any] = json.loads(payload)
        known = {name: value for name, value in values.items() if name in _NAMES}
        known["endpoints"] = tuple(Endpoint(*each) for each in known.get("endpoints", ()))
        known["other_directories"] = tuple(known.get("other_directories", ()))
        for name in ("lost_replicas", "offline_replicas", "full_replicas"):
            known[name] = tuple((topic_id, tuple(indexes)) for topic_id, indexes in known.get(name, ()))
        return BrokerRegistration(**known)
    except (ValueError, TypeError, AttributeError) as error:
        raise MetadataError(f"not the registration of a broker: {payload[:200]!r}") from error


def may_take_over(
    newcomer: BrokerRegistration, holder: BrokerRegistration, *, is_first_session: bool
) -> bool:
    """Return whether a broker may end the live session of another process with its node id.

    A process that has just started on a directory of the holder has locked that directory, so the holder is
    dead and only its session is left. A process that had a session before must not: the holder may run on a
    copy of the directory, and the two would end each other's sessions forever.
    """
    if newcomer.incarnation_id == holder.incarnation_id:
        return True
    return is_first_session and not newcomer.directories.isdisjoint(holder.directories)
