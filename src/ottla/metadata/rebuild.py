"""Rebuild the metadata of a cluster from the data of its brokers, and from backups. Pure.

The newest copy or backup says what there was: topics, configs, users. The logs say which replica has what.
In-sync replicas may have changed after the copy was written, so they are not taken from it: the replicas that
have the most (the greatest leader epoch, then the greatest end offset) are in sync, others fetch from them
(decision 0216). Leader epochs and the version grow, so that every broker takes the rebuilt metadata for newer
than its own. No broker is alive in it: they register when they start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from ottla.common.ids import TopicPartition
from ottla.log.survey import DirectorySurvey, ReplicaSurvey
from ottla.metadata.backup_file import Backup
from ottla.metadata.entities import BrokerImage, PartitionImage, TopicImage, partition_created
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import (
    BrokerRegistered,
    ClusterCreated,
    ControllerElected,
    MetadataError,
    MetadataRecord,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
)

VERSION_STEP = 1_000
"""How far the version is advanced: copies may be older than what the brokers had applied."""
PRODUCER_ID_STEP = 1_000_000
UNKNOWN_PRODUCER_IDS = 1 << 40
"""Where producer ids start if it is not known how many there were."""

Holders = Mapping[int, ReplicaSurvey]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The rebuilt metadata, and what is remarkable about it."""

    image: ClusterImage
    lost: tuple[str, ...]
    """Partitions of which no given directory has a replica."""
    added: tuple[str, ...]
    """Topics that only the directories have."""
    ignored: tuple[str, ...]
    """Topics of the directories that the metadata does not have: they will be set aside."""


def newest(backups: Sequence[Backup]) -> Backup | None:
    """Return the backup of the greatest version."""
    return max(backups, key=lambda each: (each.image.version, each.created_ms), default=None)


def check_sources(surveys: Sequence[DirectorySurvey], backups: Sequence[Backup]) -> str:
    """Return the id of the cluster; raise MetadataError unless everything belongs to it."""
    clusters = {each.cluster_id: each.path for each in surveys}
    clusters |= {each.image.cluster_id: "the backup" for each in backups}
    if len(clusters) > 1:
        listed = ", ".join(f"{where}: {cluster}" for cluster, where in clusters.items())
        raise MetadataError(f"these belong to different clusters: {listed}")
    directories: dict[str, str] = {}
    for each in surveys:
        if each.directory_id in directories:
            other = directories[each.directory_id]
            raise MetadataError(
                f"{other} and {each.path} are copies of one directory of broker {each.node_id}"
            )
        directories[each.directory_id] = each.path
    if not clusters:
        raise MetadataError("neither data directories nor a backup were given")
    return next(iter(clusters))


def missing_brokers(surveys: Sequence[DirectorySurvey], base: ClusterImage) -> list[int]:
    """Return the brokers that have replicas, but whose directory was not given."""
    given = {each.node_id for each in surveys}
    partitions = [each for topic in base.topics.values() for each in topic.partitions]
    return sorted({node for each in partitions for node in each.replicas} - given)


def missing_directories(surveys: Sequence[DirectorySurvey], base: ClusterImage) -> list[tuple[int, str]]:
    """Return the other directories of brokers of which one was given: (broker, directory id)."""
    given = {each.directory_id for each in surveys}
    nodes = {each.node_id for each in surveys}
    return sorted(
        (node_id, directory)
        for node_id, broker in base.brokers.items()
        for directory in broker.directories - given
        if node_id in nodes
    )


def rebuild(
    surveys: Sequence[DirectorySurvey], backups: Sequence[Backup], *, add_unknown: bool = False
) -> Rebuilt:
    """Return the metadata with which the brokers find all of their records again."""
    cluster_id = check_sources(surveys, backups)
    found = newest(backups)
    base = EMPTY if found is None else found.image
    unknown = _unknown_topics(surveys, base)
    added = list(unknown) if add_unknown else []
    lost: list[str] = []
    records: list[MetadataRecord] = [
        ClusterCreated(cluster_id),
        ControllerElected(-1, base.controller_epoch + 1),
    ]
    producer_ids = base.next_producer_id + PRODUCER_ID_STEP if found is not None else UNKNOWN_PRODUCER_IDS
    records.append(ProducerIdsAllocated(producer_ids))
    records += _brokers(surveys, base)
    for topic in (*base.topics.values(), *(unknown[name] for name in added)):
        records.append(TopicCreated(topic.name, topic.topic_id))
        for partition in topic.partitions:
            holders = _holders(surveys, topic, partition)
            if not holders:
                lost.append(str(TopicPartition(topic.name, partition.index)))
            records.append(partition_created(topic.topic_id, rebuilt_partition(partition, holders)))
    records += _rest(base)
    image = EMPTY.apply(records, base.version + VERSION_STEP)
    ignored = [] if add_unknown else list(unknown)
    return Rebuilt(image, tuple(lost), tuple(added), tuple(ignored))


def rebuilt_partition(partition: PartitionImage, holders: Holders) -> PartitionImage:
    """Return a partition without a leader whose in-sync replicas are those that have the most."""
    epoch = max([partition.leader_epoch, *(each.newest_epoch for each in holders.values())]) + 1
    changed = replace(partition, leader=-1, leader_epoch=epoch, partition_epoch=partition.partition_epoch + 1)
    if not holders:
        return changed
    most = max((each.last_epoch, each.end_offset) for each in holders.values())
    isr = tuple(
        node
        for node in partition.replicas
        if node in holders and (holders[node].last_epoch, holders[node].end_offset) == most
    )
    # What was lost is known from the directories themselves now.
    return replace(changed, isr=isr, elr=(), last_known_elr=isr[:1], lost_directories=())


def _holders(surveys: Sequence[DirectorySurvey], topic: TopicImage, partition: PartitionImage) -> Holders:
    at = TopicPartition(topic.name, partition.index)
    found: dict[int, ReplicaSurvey] = {}
    for each in surveys:
        replica = each.replicas.get(at)
        if (
            each.node_id in partition.replicas
            and replica is not None
            and replica.topic_id in (None, topic.topic_id)
        ):
            if found.get(each.node_id, replica) != replica:  # equal: a move was interrupted
                raise MetadataError(
                    f"broker {each.node_id} has {at} in two of its directories: one is a former copy, from "
                    "a disk that was away. Compare the newest files of both (ls -l), and move the older one "
                    "away"
                )
            found[each.node_id] = replica
    return found


def _unknown_topics(surveys: Sequence[DirectorySurvey], base: ClusterImage) -> dict[str, TopicImage]:
    """Return the topics that only the directories have, as far as their names are free."""
    found: dict[tuple[str, UUID], dict[int, list[int]]] = {}
    for survey in surveys:
        for at, replica in survey.replicas.items():
            if replica.topic_id is not None and replica.topic_id not in base.names_by_id:
                indexes = found.setdefault((at.topic, replica.topic_id), {})
                indexes.setdefault(at.partition, []).append(survey.node_id)
    topics: dict[str, TopicImage] = {}
    for (name, topic_id), indexes in sorted(found.items(), key=lambda each: str(each[0])):
        if name in base.topics or name in topics:
            continue  # it was deleted and created again
        anywhere = sorted({node for nodes in indexes.values() for node in nodes})
        partitions = tuple(
            PartitionImage(index, -1, 0, tuple(sorted(indexes.get(index, anywhere))), (), 0)
            for index in range(max(indexes) + 1)
        )
        topics[name] = TopicImage(name, topic_id, partitions)
    return topics


def _brokers(surveys: Sequence[DirectorySurvey], base: ClusterImage) -> Iterator[BrokerRegistered]:
    """Yield the brokers, none of them alive; their epochs are those of a new ZooKeeper, which start low."""
    directories: dict[int, list[str]] = {}
    for each in surveys:
        directories.setdefault(each.node_id, []).append(each.directory_id)
    for node_id in sorted({*base.brokers, *directories}):
        known = base.brokers.get(node_id) or BrokerImage(node_id, -1, None, ())
        found = directories.get(node_id) or [known.directory_id]
        first = known.directory_id if known.directory_id in found else found[0]
        # Those that were not given, too: the broker finds them gone, and their replicas lost.
        others = tuple(sorted({*found, *known.directories} - {first}))
        yield BrokerRegistered(
            *known._replace(
                epoch=-1, fenced=True, shutting_down=False, directory_id=first, other_directories=others
            )
        )


def _rest(base: ClusterImage) -> Iterator[MetadataRecord]:
    """Yield configs, quotas, ACLs, tokens and users, as they are."""
    own = (
        ClusterCreated,
        ControllerElected,
        ProducerIdsAllocated,
        BrokerRegistered,
        TopicCreated,
        PartitionCreated,
    )
    return (each for each in base.records() if not isinstance(each, own))
