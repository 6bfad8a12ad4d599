"""Who leads a partition, and who may lead it next.

The leader is taken from the in-sync replicas (ISR). When none of them lives, from the eligible leader
replicas (ELR, KIP-966): replicas that left the ISR when it was about to become smaller than
min.insync.replicas. Since nothing is committed while the ISR is that small, they have every committed record.
A broker that stopped uncleanly may have lost the end of its logs, so it is in neither.

When both are empty, every eligible replica stopped uncleanly (a power cut of all brokers). Then one is taken
whose disk failed, but whose machine has run on: its logs seem whole. If there is none, the last leader is
taken when it comes back: nobody has more, and with flush-on-ack it has everything. Any other replica would
lose records; it is taken only if the topic allows unclean elections.

A replica that came back with another log directory is empty, or old: its disk was replaced, or is not
mounted. It is out of all of these lists until it has caught up with a leader. If it was the last leader,
nobody leads until it is back with its former directory, or an operator decides (decision 0078).

A leader epoch begins whenever the leader changes, or its process was killed and started again: that has
forgotten how far it had committed, and perhaps lost the end of its log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.topic import TopicConfig
from ottla.common.ids import TopicPartition
from ottla.controller.machine.requests import Decision
from ottla.metadata.entities import partition_changed
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
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
NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ElectionInputs:
    """Which brokers live, which of those mean to stay, and what the topic asks for."""

    alive: frozenset[int]
    staying: frozenset[int]
    min_insync_replicas: int = 1
    unclean: bool = False
    directories: Mapping[int, str] = field(default_factory=dict)
    """The id of each broker's log directory, as far as it is known."""


@dataclass(frozen=True, slots=True)
class RestartInfo:
    """Brokers that were killed and started again; those that may have lost records; those that seem whole.

    `replaced` are those with another log directory than before, with the id of the former one. They are
    renewed and lost, too.
    """

    renewed: frozenset[int] = NOBODY
    lost: frozenset[int] = NOBODY
    doubtful: frozenset[int] = NOBODY
    replaced: Mapping[int, str] = field(default_factory=dict)


NO_RESTART = RestartInfo()


def resolve_partition(
    old: PartitionImage,
    wanted: PartitionImage,
    inputs: ElectionInputs,
    restarts: RestartInfo = NO_RESTART,
) -> PartitionImage:
    """Return the partition with all that follows from `wanted`: leader, ELR, epochs, reassignment.

    `wanted` is `old` with another ISR, other replicas or another leader. A partition that stays as it was
    is returned as `old`.
    """
    wanted = finish_reassignment(without_lost(wanted, restarts.lost), inputs)
    eligible = _eligible(old, wanted, inputs, restarts.lost)
    doubted = _doubted(old, wanted, inputs, restarts)
    last_leader = (old.leader,) if old.leader != NO_LEADER else old.last_known_elr[-1:]
    last_known = (*doubted, *last_leader)  # who is both is there twice
    lost_now = lost_directories(old, inputs, restarts.replaced)
    leader, isr, elr = _led(wanted, eligible, last_known, inputs, lost_now.keys())
    if isr:
        is_unclean = leader not in (*wanted.isr, *eligible, *doubted)
        may_commit = len(isr) >= least_in_sync(wanted, inputs)
        last_known = () if is_unclean or may_commit else _without(doubted, {*isr})
    if isr != wanted.isr:  # who was not in sync leads alone: perhaps the one that a move was waiting for
        wanted = finish_reassignment(replace(wanted, isr=isr), inputs)
        elr, last_known = _within(elr, wanted.replicas), _within(last_known, wanted.replicas)
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
    )
    return old if settled == old else replace(settled, partition_epoch=old.partition_epoch + 1)


def needs_no_change(partition: PartitionImage, inputs: ElectionInputs, restarts: RestartInfo) -> bool:
    """Return whether nothing is to be settled, which is so of most partitions."""
    isr = partition.isr
    return (
        partition.leader in isr
        and not partition.elr
        and not partition.last_known_elr
        and not partition.is_reassigning
        and inputs.staying.issuperset(isr)
        and restarts.renewed.isdisjoint(isr)
        and not partition.lost_directories
        and (not restarts.replaced or restarts.replaced.keys().isdisjoint(partition.replicas))
    )


def without_lost(partition: PartitionImage, lost: frozenset[int]) -> PartitionImage:
    """Return the partition without the brokers that lost the end of their logs in its ISR."""
    if lost.isdisjoint(partition.isr):
        return partition
    return replace(partition, isr=_without(partition.isr, lost))


def without_absent(partition: PartitionImage, inputs: ElectionInputs) -> PartitionImage:
    """Return the partition whose ISR lives, and means to stay if anyone in it does."""
    if inputs.staying.issuperset(partition.isr):
        return partition
    alive = tuple(each for each in partition.isr if each in inputs.alive)
    staying = tuple(each for each in alive if each in inputs.staying)
    return replace(partition, isr=staying or alive)


def finish_reassignment(partition: PartitionImage, inputs: ElectionInputs) -> PartitionImage:
    """Return the partition with its new replicas alone, if all that were added have caught up.

    Committed records were promised to min.insync.replicas: while fewer of the new replicas have them, the old
    ones stay.
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
    return alone if caught_up and len(alone.isr) >= least_in_sync(alone, inputs) else partition


def least_in_sync(partition: PartitionImage, inputs: ElectionInputs) -> int:
    """Return how many replicas must have a record before it is committed."""
    return min(inputs.min_insync_replicas, len(partition.replicas))


def preferred_leader(partition: PartitionImage) -> int:
    """Return who leads a partition when everyone is well."""
    return partition.target[0] if partition.target else NO_LEADER


def lost_directories(
    old: PartitionImage, inputs: ElectionInputs, replaced: Mapping[int, str]
) -> dict[int, str]:
    """Return the former log directories of replicas that have another one now, and were not in sync since."""
    lost = {**replaced, **dict(old.lost_directories)}  # the one with the records is the older one
    return {
        node_id: directory_id
        for node_id, directory_id in lost.items()
        if not directory_id or inputs.directories.get(node_id) != directory_id
    }


def _eligible(
    old: PartitionImage, wanted: PartitionImage, inputs: ElectionInputs, lost: frozenset[int]
) -> Nodes:
    if len(wanted.isr) >= least_in_sync(wanted, inputs):
        return ()
    complete = {*old.isr, *old.elr} - {*wanted.isr} - lost
    return tuple(each for each in wanted.replicas if each in complete)


def _doubted(
    old: PartitionImage, wanted: PartitionImage, inputs: ElectionInputs, restarts: RestartInfo
) -> Nodes:
    """Return the replicas that had everything when their disk failed, if nothing was committed since."""
    if len(wanted.isr) >= least_in_sync(wanted, inputs):
        return ()
    known = {*(old.last_known_elr if old.leader != NO_LEADER else old.last_known_elr[:-1])}
    doubted = known - restarts.lost | {*old.isr, *old.elr, *known} & restarts.doubtful
    return tuple(each for each in wanted.replicas if each in doubted)


def _led(
    wanted: PartitionImage, elr: Nodes, last_known: Nodes, inputs: ElectionInputs, empty: Collection[int]
) -> tuple[int, Nodes, Nodes]:
    """Return leader, ISR and ELR; a leader who was not in the ISR is alone in it."""
    isr = wanted.isr
    order = (wanted.leader, *wanted.target, *wanted.replicas)
    in_sync = [each for each in order if each in isr and each in inputs.alive]
    leader = _first(each for each in in_sync if each in inputs.staying)
    if leader is None:
        leader = _first(in_sync)
    if leader is not None:
        return leader, isr, elr
    candidates = [each for each in order if each in inputs.staying and each in wanted.replicas]
    leader = _first(each for each in candidates if each in elr)
    if leader is not None:
        may_commit_alone = least_in_sync(wanted, inputs) <= 1
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


def _within(nodes: Nodes, replicas: Nodes) -> Nodes:
    return tuple(each for each in nodes if each in replicas)


def _without(nodes: Nodes, gone: frozenset[int] | set[int]) -> Nodes:
    return tuple(each for each in nodes if each not in gone)


# The inputs of each topic: who of the cluster lives, and what the topic's configs ask for.

ELECTION_KEYS = ("min.insync.replicas", "unclean.leader.election.enable")
"""The configs of a topic that decide who may lead."""


class ElectionInputsByTopic:
    """Makes inputs_by_topic, each once; topics without configs of their own share one."""

    def __init__(self, image: ClusterImage, config: BrokerConfig) -> None:
        self._image = image
        self._config = config
        self._alive = frozenset(each.node_id for each in image.brokers.values() if not each.fenced)
        self._staying = frozenset(each.node_id for each in image.brokers.values() if each.can_lead)
        self._directories = {each.node_id: each.directory_id for each in image.brokers.values()}
        self._known: dict[tuple[str | None, ...], ElectionInputs] = {}

    def of(self, topic: str) -> ElectionInputs:
        """Return the inputs of a topic."""
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
                self._directories,
            )
        return known


# Elections that someone asks for: of preferred leaders, or of anyone at all where nobody leads.
#
# The preferred leader of a partition is the first of its replicas; with all of them leading, each broker
# has its share of the load. After a failover others lead, and once the broker is back and in sync it is
# given its partitions again: by the controller every few minutes, or when an operator asks (ElectLeaders).

MOST_MOVED_AT_ONCE = 1_000


class ElectionType(IntEnum):
    """What kind of leader is asked for, with the numbers of the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage, kind: int, wanted: Sequence[TopicPartition], config: BrokerConfig
) -> Decision[PartitionImage]:
    """Elect leaders of these partitions; the results are the partitions as they then are."""
    inputs_by_topic = ElectionInputsByTopic(image, config)
    records: list[MetadataRecord] = []
    results: list[PartitionImage | KafkaError] = []
    done: set[TopicPartition] = set()
    for at in wanted:
        try:
            partition = image.partition(*at)
            if partition is None:
                raise UnknownTopicOrPartition(f"there is no {at}")
            if at in done:
                raise InvalidRequest("the request names this partition more than once")
            elected = _elected(partition, kind, inputs_by_topic.of(at.topic))
        except KafkaError as error:
            results.append(error)
            continue
        done.add(at)
        records.append(partition_changed(image.topics[at.topic].topic_id, elected))
        results.append(elected)
    return Decision(tuple(records), tuple(results))


def balance_leaders(image: ClusterImage, config: BrokerConfig) -> Decision[int]:
    """Give brokers that lead too few of their partitions the leadership of those; count the moves."""
    inputs_by_topic = ElectionInputsByTopic(image, config)
    due = _brokers_with_too_few(image, config.leader_imbalance_per_broker_percentage)
    records: list[MetadataRecord] = []
    for topic, partition in _not_preferred(image):
        if preferred_leader(partition) not in due or len(records) == MOST_MOVED_AT_ONCE:
            continue
        try:
            elected = _elected(partition, ElectionType.PREFERRED, inputs_by_topic.of(topic.name))
        except KafkaError:
            continue
        records.append(partition_changed(topic.topic_id, elected))
    return Decision(tuple(records), (len(records),))


def _elected(partition: PartitionImage, kind: int, inputs: ElectionInputs) -> PartitionImage:
    if kind == ElectionType.PREFERRED:
        preferred = preferred_leader(partition)
        if partition.leader == preferred:
            raise ElectionNotNeeded(f"broker {preferred}, the preferred leader, leads")
        if preferred not in partition.isr or preferred not in inputs.staying:
            raise PreferredLeaderNotAvailable(f"broker {preferred} is not there, or not in sync")
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
    """Return the brokers of whose partitions more than this part is led by others."""
    preferred = Counter(
        preferred_leader(partition) for topic in image.topics.values() for partition in topic.partitions
    )
    led_by_others = Counter(preferred_leader(partition) for _, partition in _not_preferred(image))
    return {
        node_id for node_id, count in led_by_others.items() if count * 100 > preferred[node_id] * percentage
    }
