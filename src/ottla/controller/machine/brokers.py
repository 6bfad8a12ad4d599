"""Decisions about brokers and the cluster: registration, fencing, shutdown, the controller, producer ids.

The metadata store knows which sessions are alive; `sync_sessions` updates the image to match them, whatever
happened since the last call. A broker whose session ended is fenced: it leaves the ISRs, and others lead its
partitions. A broker that returns has a new session, and with its epoch it is a new incarnation; if it did not
stop cleanly, it may have lost the end of its logs, and new records may get offsets that old ones had. If it
has another log directory than before, it has lost everything.

The first consumer creates `__consumer_offsets`, possibly while there is only one broker; its committed
offsets must survive the loss of that broker. So whenever a broker joins, internal topics with fewer replicas
than configured get more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.controller.machine.election import (
    NO_LEADER,
    NO_RESTART,
    RESOLVE_KEYS,
    ElectionInputsByTopic,
    RestartInfo,
    needs_no_change,
    resolve_partition,
    without_offline,
)
from ottla.controller.machine.reassignment import moved_to
from ottla.controller.machine.requests import Decision
from ottla.controller.machine.topics import default_min_insync
from ottla.metadata.entities import partition_changed
from ottla.metadata.image import MAINTENANCE_KEY, BrokerImage, ClusterImage, PartitionImage
from ottla.metadata.records import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    ConfigResource,
    ControllerElected,
    MetadataRecord,
    PartitionChanged,
    ProducerIdsAllocated,
)
from ottla.metadata.registration import (
    BrokerRegistration,
    GroupedReplicas,
    SessionInfo,
    ungroup_replicas,
)
from ottla.protocol.errors import BrokerIdNotRegistered, InvalidRequest


def become_controller(
    image: ClusterImage, node_id: int, controller_epoch: int, new_cluster_id: str
) -> Decision[str]:
    """Publish who the controller is, and name the cluster if it has no id. The result is the cluster id."""
    records: list[MetadataRecord] = []
    if not image.cluster_id:
        records.append(ClusterCreated(new_cluster_id))
    if (image.controller_id, image.controller_epoch) != (node_id, controller_epoch):
        records.append(ControllerElected(node_id, controller_epoch))
    return Decision(tuple(records), (image.cluster_id or new_cluster_id,))


def allocate_producer_ids(image: ClusterImage, count: int) -> Decision[range]:
    """Allocate the next `count` producer ids; they are never allocated again."""
    first = image.next_producer_id
    return Decision((ProducerIdsAllocated(first + count),), (range(first, first + count),))


FACTORS = {
    CONSUMER_OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
}
"""The config with the number of replicas of each internal topic."""


def extend_internal_topics(image: ClusterImage, config: BrokerConfig) -> Iterator[MetadataRecord]:
    """Yield the reassignments that give internal topics the configured number of replicas."""
    avoided = image.in_maintenance
    brokers = [each for each in image.brokers.values() if each.can_lead]
    staying = [each.node_id for each in brokers if each.node_id not in avoided]
    for name, key in FACTORS.items():
        topic = image.topics.get(name)
        if topic is None or key not in config.KEYS:
            continue
        wanted = min(getattr(config, config.KEYS[key].attribute), len(staying))
        load = Counter(dict.fromkeys(sorted(staying), 0))
        load.update(node for each in topic.partitions for node in each.target if node in load)
        inputs = ElectionInputsByTopic(image, config).of(name)
        for partition in topic.partitions:
            target = _extended(partition, wanted, load)
            if target != partition.target:
                moving = resolve_partition(partition, moved_to(partition, target), inputs)
                yield partition_changed(topic.topic_id, moving)
        if wanted > topic.replication_factor:
            for setting in default_min_insync(image.topic_overrides(name), wanted, config).items():
                yield ConfigChanged(ConfigResource.TOPIC, name, *setting)


def _extended(partition: PartitionImage, wanted: int, load: Counter[int]) -> tuple[int, ...]:
    target = list(partition.target)
    while len(target) < wanted:
        chosen = min((each for each in load if each not in target), key=lambda each: load[each])
        target.append(chosen)
        load[chosen] += 1
    return tuple(target)


R = TypeVar("R")
BrokerRecord = BrokerRegistered | BrokerChanged


def sync_sessions(
    image: ClusterImage, sessions: Sequence[SessionInfo], config: BrokerConfig
) -> Decision[None]:
    """Register, fence and drain brokers according to their sessions, and update the affected partitions.

    All of it is one change: a broker that lost records is never alive and in an ISR at the same time.
    """
    live = {each.node_id: each for each in sessions if each.registration.endpoints}
    brokers = list(_broker_records(image, live))
    disks = ReportedDisks(live)
    if not brokers:
        return Decision(tuple(resolve_partitions(image, config, disks=disks)), (None,))
    after = image.apply(brokers)
    restarts = _restart_info(image, brokers, live)
    settled: list[MetadataRecord] = [*resolve_partitions(after, config, restarts, disks)]
    if after.brokers.keys() > image.brokers.keys():
        settled += extend_internal_topics(after.apply(settled), config)
    return Decision((*brokers, *settled), (None,))


class ReportedDisks:
    """The replicas that live brokers report to be in log directories that are offline or full."""

    def __init__(self, live: Mapping[int, SessionInfo]) -> None:
        self._live = live
        self._failed = _nodes_by_replica((each, live[each].registration.offline_replicas) for each in live)
        self._full = _nodes_by_replica((each, live[each].registration.full_replicas) for each in live)

    def update(self, topic_id: UUID, partition: PartitionImage) -> PartitionImage:
        """Return the partition with the replicas on bad disks; of a dead broker nothing new is known."""
        at = (topic_id, partition.index)
        failed = self._merged(partition, partition.failed, self._failed.get(at, ()))
        full = self._merged(partition, partition.full, self._full.get(at, ()))
        if (failed, full) == (partition.failed, partition.full):
            return partition
        return replace(partition, failed=failed, full=full)

    def _merged(
        self, partition: PartitionImage, known: tuple[int, ...], reported: Collection[int]
    ) -> tuple[int, ...]:
        if not (known or reported):
            return ()
        kept = {each for each in known if each not in self._live}
        return tuple(each for each in partition.replicas if each in kept or each in reported)


def _nodes_by_replica(reports: Iterable[tuple[int, GroupedReplicas]]) -> dict[tuple[UUID, int], set[int]]:
    found: dict[tuple[UUID, int], set[int]] = {}
    for node_id, replicas in reports:
        for replica in ungroup_replicas(replicas):
            found.setdefault(replica, set()).add(node_id)
    return found


def resolve_partitions(
    image: ClusterImage,
    config: BrokerConfig,
    restarts: RestartInfo = NO_RESTART,
    disks: ReportedDisks | None = None,
) -> Iterator[PartitionChanged]:
    """Yield the changes to partitions that follow from the brokers of the image."""
    inputs_by_topic = ElectionInputsByTopic(image, config)
    for topic in image.topics.values():
        inputs = inputs_by_topic.of(topic.name)
        for partition in topic.partitions:
            wanted = partition if disks is None else disks.update(topic.topic_id, partition)
            mine = restarts.at(topic.topic_id, partition.index)
            if wanted is partition and needs_no_change(partition, inputs, mine):
                continue
            settled = resolve_partition(partition, without_offline(wanted, inputs), inputs, mine)
            if settled is not partition:
                yield partition_changed(topic.topic_id, settled)


def with_elections(image: ClusterImage, decision: Decision[R], config: BrokerConfig) -> Decision[R]:
    """Return a decision about configs together with its consequences for partitions, as one change.

    With a smaller min.insync.replicas, a leader may commit what the eligible replicas do not have: in the
    same change they must lose their eligibility.
    """
    keys = {each.key for each in decision.records if isinstance(each, ConfigChanged)}
    if keys.isdisjoint(RESOLVE_KEYS):
        return decision
    after = image.apply(decision.records)
    config = config.with_dynamic(after.broker_overrides(config.node_id), after.broker_overrides())
    return Decision((*decision.records, *resolve_partitions(after, config)), decision.results)


def unregister_broker(image: ClusterImage, node_id: int) -> Decision[None]:
    """Remove a broker that is gone permanently."""
    broker = image.brokers.get(node_id)
    if broker is None:
        return Decision((), (BrokerIdNotRegistered(f"there is no broker {node_id}"),))
    if not broker.fenced:
        return Decision((), (InvalidRequest(f"broker {node_id} is alive; stop it first"),))
    records: list[MetadataRecord] = [BrokerUnregistered(node_id)]
    if node_id in image.in_maintenance:  # the next broker with this id is not
        records.append(ConfigChanged(ConfigResource.BROKER, str(node_id), MAINTENANCE_KEY, None))
    return Decision(tuple(records), (None,))


def partitions_awaiting_directory(image: ClusterImage) -> dict[int, list[TopicPartition]]:
    """Return the partitions without a leader whose last leader lost its log directory, by that broker."""
    found: dict[int, list[TopicPartition]] = {}
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader == NO_LEADER and partition.lost_directories:
                for node_id in dict(partition.lost_directories).keys() & {*partition.last_known_elr[-1:]}:
                    found.setdefault(node_id, []).append(TopicPartition(topic.name, partition.index))
    return found


def has_leaders_to_move(image: ClusterImage, node_id: int) -> bool:
    """Return whether a stopping broker still leads a partition that another could lead."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced:
        return False
    if not broker.shutting_down:
        return True
    staying = {each.node_id for each in image.brokers.values() if each.can_lead}
    return any(
        partition.leader == node_id
        and not staying.difference(partition.failed, partition.full).isdisjoint(partition.isr)
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def _broker_records(image: ClusterImage, live: Mapping[int, SessionInfo]) -> Iterator[BrokerRecord]:
    for node_id, broker in image.brokers.items():
        if node_id not in live and not broker.fenced:
            yield BrokerChanged(node_id, broker.epoch, fenced=True, shutting_down=broker.shutting_down)
    for node_id, session in live.items():
        registration, before = session.registration, image.brokers.get(node_id)
        wanted = BrokerImage(
            node_id,
            session.broker_epoch,
            registration.rack,
            registration.endpoints,
            shutting_down=registration.wants_shutdown,
            directory_id=registration.directory_id or (before.directory_id if before is not None else ""),
            other_directories=registration.other_directories,
        )
        if before == wanted or (before is not None and before.epoch > wanted.epoch):
            continue
        if before is not None and before == wanted._replace(shutting_down=before.shutting_down):
            yield BrokerChanged(node_id, before.epoch, fenced=False, shutting_down=wanted.shutting_down)
        else:
            yield BrokerRegistered(*wanted)


def _restart_info(
    image: ClusterImage, changes: Iterable[BrokerRecord], live: Mapping[int, SessionInfo]
) -> RestartInfo:
    """Return what happened to the brokers that return as new incarnations."""
    renewed, lost, doubtful, replaced = set(), set(), set(), {}
    missing: dict[tuple[UUID, int], dict[int, str]] = {}
    for each in changes:
        node_id, before = each.node_id, image.brokers.get(each.node_id)
        if isinstance(each, BrokerChanged) or (before is not None and before.epoch == each.broker_epoch):
            continue
        registration = live[node_id].registration
        former = _former_directory(before, registration)
        if former is not None:
            replaced[node_id] = former
        elif before is not None and registration.lost_replicas:
            gone = ",".join(sorted(before.directories - registration.directories))
            for replica in ungroup_replicas(registration.lost_replicas):
                missing.setdefault(replica, {})[node_id] = gone
        if former is not None or registration.after_unclean_stop:
            renewed.add(node_id)
        if former is not None or (registration.after_unclean_stop and registration.may_have_lost_records):
            lost.add(node_id)
            if former is None and registration.seems_whole:
                doubtful.add(node_id)
    return RestartInfo(frozenset(renewed), frozenset(lost), frozenset(doubtful), replaced, missing)


def _former_directory(before: BrokerImage | None, registration: BrokerRegistration) -> str | None:
    """Return the ids of the log directories that a broker had before; None if it still has one of them.

    Nothing is known of a broker that was unregistered: "" stands for its directory, unless it reports that
    nothing was lost, which a new directory cannot. Metadata from before directory ids were recorded is
    accepted.
    """
    if before is None:
        return "" if registration.after_unclean_stop and registration.may_have_lost_records else None
    known, now = before.directories, registration.directories
    return ",".join(sorted(known)) if known and now and known.isdisjoint(now) else None
