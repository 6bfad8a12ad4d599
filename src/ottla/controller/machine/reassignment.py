"""Reassign partitions to other brokers (KIP-455): add, catch up, remove, or cancel.

During a reassignment a partition has the new and the old replicas. When all added ones are in the ISR, the
old ones are removed (see `election.finish_reassignment`); until then the reassignment can be cancelled or
replaced. Replicas that only an earlier reassignment had added are then removed immediately, unless too few of
the others have every committed record.

`balance_replicas` reassigns automatically (`ottla.auto.balance.enable`), until each topic is spread evenly: a
few partitions at a time, and only in a healthy cluster, where every broker is alive, every replica in sync,
and no reassignment in progress. Counts decide, not sizes, which the controller does not know. Leaders follow
by the election of preferred leaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.common.placement import spread
from ottla.controller.machine.election import (
    ElectionInputs,
    ElectionInputsByTopic,
    min_in_sync,
    resolve_partition,
)
from ottla.controller.machine.requests import Decision
from ottla.controller.machine.topics import maintenance_text
from ottla.metadata.entities import partition_changed
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)

MAX_BALANCED_PARTITIONS = 5_000
"""Larger clusters are balanced with `ottla cluster reassign`: the plan would block the controller."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The target replicas of a partition; None cancels a running reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


def reassign(
    image: ClusterImage,
    moves: Sequence[Reassignment],
    config: BrokerConfig,
    *,
    may_change_factor: bool = True,
) -> Decision[None]:
    """Start, replace or cancel reassignments."""
    inputs_by_topic = ElectionInputsByTopic(image, config)
    records: list[MetadataRecord] = []
    results: list[KafkaError | None] = []
    done: set[tuple[str, int]] = set()
    for move in moves:
        inputs = inputs_by_topic.of(move.topic)
        try:
            if (move.topic, move.partition) in done:
                raise InvalidRequest("the request names this partition more than once")
            done.add((move.topic, move.partition))
            partition = image.partition(move.topic, move.partition)
            if partition is None:
                raise UnknownTopicOrPartition(f"there is no {move.topic}-{move.partition}")
            if move.replicas is None:
                wanted = _cancelled(partition)
            else:
                _check_target(image, partition, move.replicas, may_change_factor)
                wanted = moved_to(partition, move.replicas)
            _check_copies(partition, wanted, inputs)
        except KafkaError as error:
            results.append(error)
            continue
        settled = resolve_partition(partition, wanted, inputs)
        if settled is not partition:
            records.append(partition_changed(image.topics[move.topic].topic_id, settled))
        results.append(None)
    return Decision(tuple(records), tuple(results))


def _check_copies(partition: PartitionImage, wanted: PartitionImage, inputs: ElectionInputs) -> None:
    if len(wanted.isr) < min(len(partition.isr), min_in_sync(wanted, inputs)):
        raise InvalidReplicaAssignment(
            f"only {list(wanted.isr)} of the replicas that would stay have all records, fewer than"
            " min.insync.replicas: wait until more of them have caught up"
        )


def original(partition: PartitionImage) -> tuple[int, ...]:
    """Return the replicas from before the running reassignment; those that stay come first."""
    return tuple(each for each in partition.replicas if each not in partition.adding)


def _check_target(
    image: ClusterImage, partition: PartitionImage, target: tuple[int, ...], may_change_factor: bool
) -> None:
    if not target or any(each < 0 for each in target):
        raise InvalidReplicaAssignment(
            "a partition needs at least one replica, and brokers have ids from 0 on"
        )
    if len(set(target)) != len(target):
        raise InvalidReplicaAssignment(f"the assignment {list(target)} names a broker twice")
    if unknown := [each for each in target if each not in image.brokers]:
        raise InvalidReplicaAssignment(f"there is no broker {unknown[0]}")
    current = original(partition)
    added = set(target) - {*partition.replicas}
    if avoided := image.in_maintenance & added:
        raise InvalidReplicaAssignment(maintenance_text(min(avoided)))
    if not may_change_factor and len(target) != len(current):
        raise InvalidReplicationFactor(
            f"the assignment {list(target)} has {len(target)} replicas, the partition {len(current)}"
        )


def moved_to(partition: PartitionImage, target: tuple[int, ...]) -> PartitionImage:
    """Return the partition being reassigned to `target`, replacing any running reassignment."""
    before = original(partition)
    adding = tuple(each for each in target if each not in before)
    removing = tuple(each for each in before if each not in target)
    return _with_replicas(partition, (*target, *removing), adding, removing)


def _cancelled(partition: PartitionImage) -> PartitionImage:
    if not partition.is_reassigning:
        raise NoReassignmentInProgress("its replicas are not being moved")
    return _with_replicas(partition, original(partition), (), ())


def _with_replicas(
    partition: PartitionImage, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> PartitionImage:
    """Return the partition with these replicas; those that only an earlier reassignment added are removed at
    once.
    """
    complete = partition.isr or partition.elr
    if complete and not set(complete) & set(replicas):
        raise InvalidReplicaAssignment(f"only {list(complete)} have all records, and none of them would stay")
    isr = tuple(each for each in partition.isr if each in replicas)
    return replace(partition, replicas=replicas, isr=isr, adding=adding, removing=removing)


def balance_replicas(image: ClusterImage, config: BrokerConfig) -> Decision[int]:
    """Start the next few moves; the result is their number."""
    if not _is_calm(image):
        return Decision((), (0,))
    now = {
        TopicPartition(topic.name, each.index): each.replicas
        for topic in image.topics.values()
        for each in topic.partitions
    }
    if len(now) > MAX_BALANCED_PARTITIONS:
        return Decision((), (0,))
    racks = {each.node_id: each.rack for each in image.brokers.values()}
    plan = spread(now, racks, closed=image.in_maintenance)
    changed = [at for at, target in plan.items() if target != now[at]]
    moved = [at for at in changed if {*plan[at]} != {*now[at]}]
    # Other orders copy nothing. All at once: one leader may move over several partitions, and after a part of
    # that way the next plan could be to go back.
    due = moved[: config.ottla_auto_balance_moves] or changed
    decided = reassign(image, [Reassignment(at.topic, at.partition, plan[at]) for at in due], config)
    return Decision(decided.records, (sum(each is None for each in decided.results),))


def _is_calm(image: ClusterImage) -> bool:
    partitions = [each for topic in image.topics.values() for each in topic.partitions]
    return all(each.can_lead for each in image.brokers.values()) and all(
        not each.is_reassigning and set(each.isr) == set(each.replicas) for each in partitions
    )
