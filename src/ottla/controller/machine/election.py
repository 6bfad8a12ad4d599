"""Elect the leader of a partition, and determine which replicas may lead it next.

The leader is chosen from the in-sync replicas (ISR). If none of them is alive, from the eligible leader
replicas (ELR, KIP-966): replicas that left the ISR when it would have become smaller than
min.insync.replicas. Since nothing is committed while the ISR is that small, they have every committed record.
A broker that stopped uncleanly may have lost the end of its logs, so it is in neither.

If both are empty, every eligible replica stopped uncleanly (all brokers lost power). Then one is chosen whose
disk failed, but whose machine kept running: its logs seem complete. If there is none, the last leader is
chosen when it returns: no replica has more, and with flush.messages=1 it has everything. Any other replica
would lose records; it is chosen only if the topic allows unclean elections.

A replica that returned with another log directory is empty or outdated: its disk was replaced, or is not
mounted. It is in none of these lists until it has caught up with a leader. If it was the last leader, the
partition has no leader until it returns with its former directory, or an operator decides (decision 0078).

A replica whose log directory is offline is treated as one whose broker is (`failed`, decision 0210), and one
whose log directory is full as one whose broker is shutting down (`full`, decision 0300).

A leader epoch begins whenever the leader changes, or its process was killed and restarted: it has lost its
high watermark, and possibly the end of its log.

A broker in maintenance stays in sync, but leads only what no other in-sync replica can.

The preferred leader of a partition is its first replica; if all of them lead, the load is balanced. After a
failover others lead; when the broker is back and in sync, the controller returns its partitions every few
minutes, or when an operator requests it (ElectLeaders).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.topic import TopicConfig
from ottla.common.ids import TopicPartition
from ottla.controller.machine.requests import Decision
from ottla.metadata.entities import partition_changed
from ottla.metadata.image import MAINTENANCE_KEY, ClusterImage, PartitionImage, TopicImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

NO_LEADER = -1
Nodes = tuple[int, ...]
NO_BROKERS: frozenset[int] = frozenset()
NO_IDS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ElectionInputs:
    """The live brokers, those that are not shutting down, and the topic's configs."""

    alive: frozenset[int]
    staying: frozenset[int]
    min_insync_replicas: int = 1
    unclean: bool = False
    avoided: frozenset[int] = NO_BROKERS
    """Brokers in maintenance: they lead only what no other in-sync replica can."""
    directories: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """The ids of each broker's log directories, if they are known."""

    def for_disks_of(self, partition: PartitionImage) -> ElectionInputs:
        """Return the inputs for a partition: a replica on a failed disk counts as dead, one on a full disk as
        shutting down.
        """
        if not (partition.failed or partition.full):
            return self
        alive = self.alive.difference(partition.failed)
        return replace(self, alive=alive, staying=(self.staying & alive).difference(partition.full))


@dataclass(frozen=True, slots=True)
class RestartInfo:
    """Brokers that were killed and restarted; those that may have lost records; those whose logs seem
    complete.

    `replaced` are those with another log directory than before, with the id of the former one. They are in
    `renewed` and `lost`, too. Of brokers with several directories, some of which are others than before,
    `missing` has the replicas that were in those: partition, broker, ids of the former directories.
    """

    renewed: frozenset[int] = NO_BROKERS
    lost: frozenset[int] = NO_BROKERS
    doubtful: frozenset[int] = NO_BROKERS
    replaced: Mapping[int, str] = field(default_factory=dict)
    missing: Mapping[tuple[UUID, int], Mapping[int, str]] = field(default_factory=dict)

    def at(self, topic_id: UUID, index: int) -> RestartInfo:
        """Return what happened to the replicas of one partition."""
        missing = self.missing.get((topic_id, index)) if self.missing else None
        if missing is None:
            return self
        nodes = missing.keys()
        return RestartInfo(
            self.renewed | nodes, self.lost | nodes, self.doubtful - nodes, {**self.replaced, **missing}
        )


NO_RESTART = RestartInfo()


def resolve_partition(
    old: PartitionImage,
    wanted: PartitionImage,
    inputs: ElectionInputs,
    restarts: RestartInfo = NO_RESTART,
) -> PartitionImage:
    """Return the partition with the consequences of `wanted`: leader, ELR, epochs, reassignment.

    `wanted` is `old` with another ISR, other replicas or another leader. An unchanged partition is returned
    as `old`.
    """
    inputs = inputs.for_disks_of(wanted)
    wanted = finish_reassignment(without_lost(wanted, restarts.lost), inputs)
    eligible = _eligible(old, wanted, inputs, restarts.lost)
    doubted = _candidates_after_disk_failure(old, wanted, inputs, restarts)
    last_leader = (old.leader,) if old.leader != NO_LEADER else old.last_known_elr[-1:]
    last_known = (*doubted, *last_leader)  # a replica that is both appears twice
    lost_now = lost_directories(old, inputs, restarts.replaced)
    leader, isr, elr = _elect(wanted, eligible, last_known, inputs, lost_now.keys())
    if isr:
        is_unclean = leader not in (*wanted.isr, *eligible, *doubted)
        may_commit = len(isr) >= min_in_sync(wanted, inputs)
        last_known = () if is_unclean or may_commit else _without(doubted, {*isr})
    if isr != wanted.isr:  # a leader from outside the ISR leads alone: a move may have waited for it
        wanted = finish_reassignment(replace(wanted, isr=isr), inputs)
        elr, last_known = _only(elr, wanted.replicas), _only(last_known, wanted.replicas)
    is_new_leader = leader != old.leader or leader in restarts.renewed
    settled = replace(
        wanted,
        leader=leader,
        leader_epoch=old.leader_epoch + is_new_leader,
        isr=isr,
        elr=elr,
        last_known_elr=last_known,
        lost_directories=tuple(
            (each, lost_now[each]) for each in wanted.replicas if each in lost_now and each not in isr
        ),
        failed=_only(wanted.failed, wanted.replicas),
        full=_only(wanted.full, wanted.replicas),
    )
    return old if settled == old else replace(settled, partition_epoch=old.partition_epoch + 1)


def needs_no_change(partition: PartitionImage, inputs: ElectionInputs, restarts: RestartInfo) -> bool:
    """Return whether nothing follows for a partition, which is the common case."""
    isr = partition.isr
    return (
        partition.leader in isr
        and partition.leader not in inputs.avoided
        and not partition.elr
        and not partition.last_known_elr
        and not partition.is_reassigning
        and inputs.staying.issuperset(isr)
        and restarts.renewed.isdisjoint(isr)
        and not partition.lost_directories
        and not partition.failed
        and not partition.full
        and (not restarts.replaced or restarts.replaced.keys().isdisjoint(partition.replicas))
    )


def without_lost(partition: PartitionImage, lost: frozenset[int]) -> PartitionImage:
    """Return the partition without the brokers in its ISR that lost the end of their logs."""
    if lost.isdisjoint(partition.isr):
        return partition
    return replace(partition, isr=_without(partition.isr, lost))


def without_offline(partition: PartitionImage, inputs: ElectionInputs) -> PartitionImage:
    """Return the partition whose ISR is alive, and not shutting down if any member is not."""
    inputs = inputs.for_disks_of(partition)
    if inputs.staying.issuperset(partition.isr):
        return partition
    alive = tuple(each for each in partition.isr if each in inputs.alive)
    staying = tuple(each for each in alive if each in inputs.staying)
    return replace(partition, isr=staying or alive)


def finish_reassignment(partition: PartitionImage, inputs: ElectionInputs) -> PartitionImage:
    """Return the partition with its new replicas alone, if all added ones have caught up.

    Committed records must be on min.insync.replicas: while fewer of the new replicas have them, the old ones
    stay.
    """
    if not partition.is_reassigning:
        return partition
    alone = replace(
        partition,
        replicas=partition.target,
        isr=tuple(each for each in partition.isr if each in partition.target),
        adding=(),
        removing=(),
    )
    caught_up = set(partition.adding) <= set(alone.isr)
    return alone if caught_up and len(alone.isr) >= min_in_sync(alone, inputs) else partition


def min_in_sync(partition: PartitionImage, inputs: ElectionInputs) -> int:
    """Return how many replicas must have a record before it is committed."""
    return min(inputs.min_insync_replicas, len(partition.replicas))


def preferred_leader(partition: PartitionImage) -> int:
    """Return the preferred leader of a partition."""
    return partition.target[0] if partition.target else NO_LEADER


def lost_directories(
    old: PartitionImage, inputs: ElectionInputs, replaced: Mapping[int, str]
) -> dict[int, str]:
    """Return the former log directories of replicas that have another one now and were not in sync since."""
    lost = {**replaced, **dict(old.lost_directories)}  # the one with the records is the older one
    return {
        node_id: directory_id
        for node_id, directory_id in lost.items()
        if not directory_id or not inputs.directories.get(node_id, NO_IDS).issuperset(directory_id.split(","))
    }


def _eligible(
    old: PartitionImage, wanted: PartitionImage, inputs: ElectionInputs, lost: frozenset[int]
) -> Nodes:
    if len(wanted.isr) >= min_in_sync(wanted, inputs):
        return ()
    complete = {*old.isr, *old.elr} - {*wanted.isr} - lost
    return tuple(each for each in wanted.replicas if each in complete)


def _candidates_after_disk_failure(
    old: PartitionImage, wanted: PartitionImage, inputs: ElectionInputs, restarts: RestartInfo
) -> Nodes:
    """Return the replicas that had everything when their disk failed, if nothing was committed since."""
    if len(wanted.isr) >= min_in_sync(wanted, inputs):
        return ()
    known = {*(old.last_known_elr if old.leader != NO_LEADER else old.last_known_elr[:-1])}
    doubted = known - restarts.lost | {*old.isr, *old.elr, *known} & restarts.doubtful
    return tuple(each for each in wanted.replicas if each in doubted)


def _elect(
    wanted: PartitionImage, elr: Nodes, last_known: Nodes, inputs: ElectionInputs, empty: Collection[int]
) -> tuple[int, Nodes, Nodes]:
    """Return leader, ISR and ELR; a leader that was not in the ISR becomes its only member."""
    isr = wanted.isr
    order = (wanted.leader, *wanted.target, *wanted.replicas)
    in_sync = [each for each in order if each in isr and each in inputs.alive]
    staying = [each for each in in_sync if each in inputs.staying]
    leader = _first(each for each in staying if each not in inputs.avoided)
    if leader is None:
        leader = _first(staying or in_sync)
    if leader is not None:
        return leader, isr, elr
    candidates = [each for each in order if each in inputs.staying and each in wanted.replicas]
    candidates.sort(key=lambda each: each in inputs.avoided)  # stable
    leader = _first(each for each in candidates if each in elr)
    if leader is not None:
        may_commit_alone = min_in_sync(wanted, inputs) <= 1
        return leader, (leader,), () if may_commit_alone else _without(elr, {leader})
    if not isr and not elr:
        leader = _first(each for each in candidates if each in last_known[:1] and each not in empty)
    if leader is None and inputs.unclean:
        leader = _first(sorted(candidates, key=lambda each: each in empty))  # stable: the empty ones last
    if leader is None:
        return NO_LEADER, isr, elr
    return leader, (leader,), ()


def _first(nodes: Iterable[int]) -> int | None:
    return next(iter(nodes), None)


def _only(nodes: Nodes, replicas: Nodes) -> Nodes:
    return tuple(each for each in nodes if each in replicas)


def _without(nodes: Nodes, gone: frozenset[int] | set[int]) -> Nodes:
    return tuple(each for each in nodes if each not in gone)


ELECTION_KEYS = ("min.insync.replicas", "unclean.leader.election.enable")
"""The topic configs that affect elections."""
RESOLVE_KEYS = (*ELECTION_KEYS, MAINTENANCE_KEY)
"""All configs that affect elections."""


class ElectionInputsByTopic:
    """Creates election inputs, each once; topics without their own configs share them."""

    def __init__(self, image: ClusterImage, config: BrokerConfig) -> None:
        self._image = image
        self._config = config
        self._alive = frozenset(each.node_id for each in image.brokers.values() if not each.fenced)
        self._staying = frozenset(each.node_id for each in image.brokers.values() if each.can_lead)
        self._avoided = image.in_maintenance
        self._directories = {each.node_id: each.directories for each in image.brokers.values()}
        self._known: dict[tuple[str | None, ...], ElectionInputs] = {}

    def of(self, topic: str) -> ElectionInputs:
        """Return the election inputs of a topic."""
        overrides = self._image.topic_overrides(topic)
        own = tuple(overrides.get(key) for key in ELECTION_KEYS)
        known = self._known.get(own)
        if known is None:
            set_here = {
                key: value for key, value in zip(ELECTION_KEYS, own, strict=True) if value is not None
            }
            asked = TopicConfig(set_here, self._config)
            known = self._known[own] = ElectionInputs(
                self._alive,
                self._staying,
                asked.min_insync_replicas,
                asked.unclean_leader_election_enable,
                self._avoided,
                self._directories,
            )
        return known


MAX_MOVES_PER_CALL = 1_000


class ElectionType(IntEnum):
    """The type of election, with the numbers of the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage, kind: int, wanted: Sequence[TopicPartition], config: BrokerConfig
) -> Decision[PartitionImage]:
    """Elect leaders of these partitions; the results are the partitions afterwards."""
    inputs_by_topic = ElectionInputsByTopic(image, config)
    records: list[MetadataRecord] = []
    results: list[PartitionImage | KafkaError] = []
    done: set[TopicPartition] = set()
    for topic_partition in wanted:
        try:
            partition = image.partition(*topic_partition)
            if partition is None:
                raise UnknownTopicOrPartition(f"there is no {topic_partition}")
            if topic_partition in done:
                raise InvalidRequest("the request names this partition more than once")
            elected = _elected(partition, kind, inputs_by_topic.of(topic_partition.topic))
        except KafkaError as error:
            results.append(error)
            continue
        done.add(topic_partition)
        records.append(partition_changed(image.topics[topic_partition.topic].topic_id, elected))
        results.append(elected)
    return Decision(tuple(records), tuple(results))


def balance_leaders(image: ClusterImage, config: BrokerConfig) -> Decision[int]:
    """Return the leadership of partitions to brokers that lead too few of theirs; the result is the number of
    moves.
    """
    inputs_by_topic = ElectionInputsByTopic(image, config)
    due = _brokers_with_too_few(image, config.leader_imbalance_per_broker_percentage)
    records: list[MetadataRecord] = []
    for topic, partition in _not_preferred(image):
        if preferred_leader(partition) not in due or len(records) == MAX_MOVES_PER_CALL:
            continue
        try:
            elected = _elected(partition, ElectionType.PREFERRED, inputs_by_topic.of(topic.name))
        except KafkaError:
            continue
        records.append(partition_changed(topic.topic_id, elected))
    return Decision(tuple(records), (len(records),))


def _elected(partition: PartitionImage, kind: int, inputs: ElectionInputs) -> PartitionImage:
    inputs = inputs.for_disks_of(partition)
    if kind == ElectionType.PREFERRED:
        preferred = preferred_leader(partition)
        if partition.leader == preferred:
            raise ElectionNotNeeded(f"broker {preferred}, the preferred leader, leads")
        if preferred not in partition.isr or preferred not in inputs.staying:
            raise PreferredLeaderNotAvailable(f"broker {preferred} is not there, or not in sync")
        if preferred in inputs.avoided:
            raise PreferredLeaderNotAvailable(f"broker {preferred} is in maintenance")
        return resolve_partition(partition, replace(partition, leader=preferred), inputs)
    if kind != ElectionType.UNCLEAN:
        raise InvalidRequest(f"there is no election of type {kind}")
    if partition.leader != NO_LEADER:
        raise ElectionNotNeeded(f"broker {partition.leader} leads")
    elected = resolve_partition(partition, partition, replace(inputs, unclean=True))
    if elected.leader == NO_LEADER:
        raise EligibleLeadersNotAvailable(f"none of the replicas {list(partition.replicas)} is alive")
    return elected


def _not_preferred(image: ClusterImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader != preferred_leader(partition):
                yield topic, partition


def _brokers_with_too_few(image: ClusterImage, percentage: int) -> set[int]:
    """Return the brokers of whose partitions more than this percentage is led by others."""
    preferred = Counter(
        preferred_leader(partition) for topic in image.topics.values() for partition in topic.partitions
    )
    led_by_others = Counter(preferred_leader(partition) for _, partition in _not_preferred(image))
    return {
        node_id for node_id, count in led_by_others.items() if count * 100 > preferred[node_id] * percentage
    }
