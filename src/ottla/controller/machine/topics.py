"""Decisions about topics and partitions: names, creation, deletion, and the assignment of replicas.

Errors of a request as a whole (a duplicate name, too many partitions) are found by the `check_` functions;
the caller runs them once and then decides the rest in chunks, on an image that grows.

Replica assignment: the brokers form a ring in which neighbours are on different racks if possible. Leaders
are assigned round robin, so each broker leads the same number of partitions, plus or minus one. The followers
of a partition are the brokers after its leader, those on the least used racks first; with every full round
they start one place later, so that the leaderships of a dead broker are not all taken over by the same
neighbour. Brokers that are offline lead nothing, and follow only if there are not enough others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.common.topic_names import SPARK_DECISIONS_TOPIC, collision_key, why_illegal
from ottla.controller.machine.configs import check_topic_configs
from ottla.controller.machine.requests import DEFAULT, Decision, NewPartitions, NewTopic, TopicSelector
from ottla.metadata.entities import partition_created
from ottla.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.metadata.records import (
    ConfigChanged,
    ConfigResource,
    MetadataRecord,
    TopicCreated,
    TopicDeleted,
)
from ottla.protocol.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)


def assign_replicas(
    brokers: Iterable[BrokerImage],
    partitions: range,
    replication_factor: int,
    start: int,
    avoided: Collection[int] = (),
) -> list[tuple[int, ...]]:
    """Return the replicas, leader first, of each partition; `start` is the ring position of partition 0.

    The `avoided` brokers are in maintenance: they are used only if there are not enough others.
    """
    known = list(brokers)
    leading = [each for each in known if each.can_lead]
    ring = _ring(each for each in leading if each.node_id not in avoided) or _ring(leading)
    placed = {each.node_id for each in ring}
    absent = _ring(each for each in leading if each.node_id not in placed)
    absent += _ring(each for each in known if not each.can_lead)
    if replication_factor > len(known):
        raise InvalidReplicationFactor(
            f"{replication_factor} replicas need as many brokers, and there are {len(known)}"
        )
    if not ring:
        raise InvalidReplicationFactor("no broker is there to lead the partitions")
    return [_replicas(ring, absent, start + partition, replication_factor) for partition in partitions]


def _ring(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    racks: dict[str, list[BrokerImage]] = defaultdict(list)
    for broker in sorted(brokers, key=lambda each: each.node_id):
        racks[broker.rack or ""].append(broker)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def _replicas(
    ring: Sequence[BrokerImage], absent: Sequence[BrokerImage], ring_position: int, count: int
) -> tuple[int, ...]:
    size = len(ring)
    leader = ring[ring_position % size]
    replicas, racks = [leader.node_id], Counter([leader.rack])
    if count > 1:
        shift = ring_position // size
        others = [ring[(ring_position + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
        ranks = {each.node_id: 1 + (not each.can_lead) for each in absent}
        others += absent
        for _ in range(count - 1):
            # The first of those on the least used rack; those in maintenance and those that are away last.
            chosen = min(others, key=lambda each: (ranks.get(each.node_id, 0), racks[each.rack]))
            others.remove(chosen)
            replicas.append(chosen.node_id)
            racks[chosen.rack] += 1
    return tuple(replicas)


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicException, with the reason, if the topic name is invalid."""
    if reason := why_illegal(name):
        raise InvalidTopicException(reason)


MAX_PARTITIONS_PER_REQUEST = 10_000
SAFE_REPLICATION_FACTOR = 3
MIN_INSYNC_REPLICAS = "min.insync.replicas"
DECISIONS_TOPIC_REASON = (
    f"{SPARK_DECISIONS_TOPIC} says which batches of Spark queries are written: without it rows would be lost "
    "or written twice. It is compacted, and stays small"
)
Replicas = tuple[int, ...]


def check_new_topics(topics: Sequence[NewTopic], config: BrokerConfig) -> list[KafkaError | None]:
    """Return the errors of a request as a whole, one for each topic."""
    counts = [
        len(each.assignments)
        or (config.num_partitions if each.partition_count == DEFAULT else each.partition_count)
        for each in topics
    ]
    return _request_errors([each.name for each in topics], counts)


def check_new_partitions(image: ClusterImage, wanted: Sequence[NewPartitions]) -> list[KafkaError | None]:
    """Return the errors of a request as a whole, one for each topic."""
    added = [
        each.count - (len(image.topics[each.name].partitions) if each.name in image.topics else 0)
        for each in wanted
    ]
    return _request_errors([each.name for each in wanted], added)


def _request_errors(names: Sequence[str], partition_counts: Sequence[int]) -> list[KafkaError | None]:
    total = sum(max(0, count) for count in partition_counts)
    if total > MAX_PARTITIONS_PER_REQUEST:
        too_many = PolicyViolation(
            f"the request asks for {total} partitions, {MAX_PARTITIONS_PER_REQUEST} is the most; ask in parts"
        )
        return [too_many] * len(names)
    times = Counter(names)
    twice = InvalidRequest("the request names this topic more than once")
    return [twice if times[name] > 1 else None for name in names]


def check_selectors(
    image: ClusterImage, selectors: Sequence[TopicSelector], config: BrokerConfig
) -> list[KafkaError | None]:
    """Return the errors of a deletion request as a whole, one for each topic."""
    if not config.delete_topic_enable:
        return [TopicDeletionDisabled("delete.topic.enable is false")] * len(selectors)
    # A topic may be meant twice, once by its name and once by its id.
    found = [find_topic(image, each) for each in selectors]
    meant = [each if topic is None else topic.topic_id for each, topic in zip(selectors, found, strict=True)]
    times = Counter(meant)
    twice = InvalidRequest("the request names this topic more than once")
    return [twice if times[each] > 1 else None for each in meant]


def create_topics(
    image: ClusterImage, topics: Sequence[NewTopic], topic_ids: Sequence[UUID], config: BrokerConfig
) -> Decision[TopicImage]:
    """Create topics with the ids `topic_ids`."""
    records: list[MetadataRecord] = []
    results: list[TopicImage | KafkaError] = []
    names = _Names(image)
    for topic, topic_id in zip(topics, topic_ids, strict=True):
        try:
            names.check(topic.name)
            configs = check_topic_configs(topic.configs, config)
            replicas = _replicas_of_new(image, topic, topic_id, config)
        except KafkaError as error:
            results.append(error)
            continue
        names.add(topic.name)
        partitions = _new_partitions(image, 0, replicas)
        configs |= default_min_insync(configs, len(replicas[0]), config)
        records.append(TopicCreated(topic.name, topic_id))
        records.extend(partition_created(topic_id, each) for each in partitions)
        records.extend(ConfigChanged(ConfigResource.TOPIC, topic.name, *each) for each in configs.items())
        results.append(TopicImage(topic.name, topic_id, partitions))
    return Decision(tuple(records), tuple(results))


def delete_topics(image: ClusterImage, selectors: Sequence[TopicSelector]) -> Decision[TopicImage]:
    """Delete topics; the results are the deleted topics."""
    records: list[MetadataRecord] = []
    results: list[TopicImage | KafkaError] = []
    for selector in selectors:
        try:
            topic = _select(image, selector)
            if topic.name == SPARK_DECISIONS_TOPIC:
                raise PolicyViolation(DECISIONS_TOPIC_REASON)
        except KafkaError as error:
            results.append(error)
        else:
            records.append(TopicDeleted(topic.topic_id))
            results.append(topic)
    return Decision(tuple(records), tuple(results))


def create_partitions(image: ClusterImage, wanted: Sequence[NewPartitions]) -> Decision[TopicImage]:
    """Add partitions to topics; the results are the topics afterwards."""
    records: list[MetadataRecord] = []
    results: list[TopicImage | KafkaError] = []
    for each in wanted:
        try:
            topic = image.topics.get(each.name)
            if topic is None:
                raise UnknownTopicOrPartition(f"there is no topic {each.name!r}")
            added = _new_partitions(image, len(topic.partitions), _replicas_of_added(image, topic, each))
        except KafkaError as error:
            results.append(error)
        else:
            records.extend(partition_created(topic.topic_id, partition) for partition in added)
            results.append(replace(topic, partitions=topic.partitions + added))
    return Decision(tuple(records), tuple(results))


def find_topic(image: ClusterImage, selector: TopicSelector) -> TopicImage | None:
    """Return the selected topic, if it exists."""
    if selector.name is not None:
        return image.topics.get(selector.name)
    return None if selector.topic_id is None else image.topic_by_id(selector.topic_id)


def _select(image: ClusterImage, selector: TopicSelector) -> TopicImage:
    if (selector.name is None) == (selector.topic_id is None):
        raise InvalidRequest("name a topic either by its name or by its id")
    topic = find_topic(image, selector)
    if topic is None and selector.name is None:
        raise UnknownTopicId(f"there is no topic with the id {selector.topic_id}")
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {selector.name!r}")
    return topic


def _replicas_of_new(
    image: ClusterImage, topic: NewTopic, topic_id: UUID, config: BrokerConfig
) -> Sequence[Replicas]:
    if topic.assignments:
        if (topic.partition_count, topic.replication_factor) != (DEFAULT, DEFAULT):
            raise InvalidRequest(
                "with assignments, the number of partitions and the replication factor must be -1"
            )
        assigned = dict(topic.assignments)
        if sorted(assigned) != list(range(len(topic.assignments))):
            raise InvalidReplicaAssignment("the assigned partitions must be 0, 1, 2, ..., each of them once")
        replicas = [assigned[partition] for partition in range(len(assigned))]
        _check_assignments(image, replicas, len(replicas[0]))
        return replicas
    count = config.num_partitions if topic.partition_count == DEFAULT else topic.partition_count
    factor = (
        config.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    )
    if factor < 1:
        raise InvalidReplicationFactor(
            f"the replication factor must be at least 1, or -1 for the default, not {factor}"
        )
    if count < 1:
        raise InvalidPartitions(f"a topic has at least 1 partition, or -1 for the default, not {count}")
    avoided = image.in_maintenance
    return assign_replicas(image.brokers.values(), range(count), factor, topic_id.int, avoided)


def _replicas_of_added(image: ClusterImage, topic: TopicImage, wanted: NewPartitions) -> Sequence[Replicas]:
    current = len(topic.partitions)
    if wanted.count <= current:
        raise InvalidPartitions(
            f"topic {topic.name!r} has {current} partitions; partitions can only be added, "
            f"so {wanted.count} is too few"
        )
    added = range(current, wanted.count)
    if wanted.assignments is None:
        factor, start = topic.replication_factor, topic.topic_id.int
        return assign_replicas(image.brokers.values(), added, factor, start, image.in_maintenance)
    if len(wanted.assignments) != len(added):
        raise InvalidReplicaAssignment(
            f"{len(added)} partitions are added and {len(wanted.assignments)} assignments are given"
        )
    _check_assignments(image, wanted.assignments, topic.replication_factor)
    return wanted.assignments


def _check_assignments(image: ClusterImage, assignments: Sequence[Replicas], replication_factor: int) -> None:
    for replicas in assignments:
        if not replicas:
            raise InvalidReplicaAssignment("a partition needs at least one replica")
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"the assignment {list(replicas)} names a broker twice")
        if unknown := [each for each in replicas if each not in image.brokers]:
            raise InvalidReplicaAssignment(f"there is no broker {unknown[0]}")
        if not any(image.brokers[each].can_lead for each in replicas):
            raise InvalidReplicaAssignment(f"of the brokers {list(replicas)} none is there to lead")
        if avoided := image.in_maintenance.intersection(replicas):
            raise InvalidReplicaAssignment(maintenance_text(min(avoided)))
        if len(replicas) != replication_factor:
            raise InvalidReplicaAssignment(
                f"the assignment {list(replicas)} has {len(replicas)} replicas, others {replication_factor}"
            )


def _new_partitions(
    image: ClusterImage, first: int, replicas: Sequence[Replicas]
) -> tuple[PartitionImage, ...]:
    return tuple(_new_partition(image, index, each) for index, each in enumerate(replicas, first))


def _new_partition(image: ClusterImage, index: int, replicas: Replicas) -> PartitionImage:
    """Return a partition that is led by its first live replica."""
    isr = tuple(each for each in replicas if image.brokers[each].can_lead)
    leader = next((each for each in isr if each not in image.in_maintenance), isr[0])
    return PartitionImage(index, leader, 0, replicas, isr, 0)


def maintenance_text(node_id: int) -> str:
    """Return why a replica cannot be put on a broker in maintenance."""
    return f"broker {node_id} is in maintenance; to end it: ottla cluster maintenance stop {node_id}"


def default_min_insync(configs: Mapping[str, str], replicas: int, config: BrokerConfig) -> dict[str, str]:
    """Return the config that a topic with this many replicas gets, if any.

    With three or more replicas, two must have a record before it is committed, unless configured otherwise:
    then an acknowledged record survives the loss of a broker.
    """
    is_chosen = MIN_INSYNC_REPLICAS in configs or any(
        MIN_INSYNC_REPLICAS in set_ for _, set_ in config.layers
    )
    return {} if replicas < SAFE_REPLICATION_FACTOR or is_chosen else {MIN_INSYNC_REPLICAS: "2"}


class _Names:
    """The topic names that exist, including those of this request."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._added: set[str] = set()
        self._forms: dict[str, str] | None = None  # made when first needed: it goes over all topics

    def check(self, name: str) -> None:
        """Raise the error for a name that is invalid, exists, or collides with another."""
        check_topic_name(name)
        if name in self._image.topics or name in self._added:
            raise TopicAlreadyExists(f"topic {name!r} exists")
        if _can_collide(name) and (other := self._collisions().get(collision_key(name))):
            raise InvalidTopicException(
                f"topic {name!r} collides with {other!r}: '.' and '_' are the same in names of metrics"
            )

    def add(self, name: str) -> None:
        """Add a name."""
        self._added.add(name)
        if self._forms is not None:
            self._forms[collision_key(name)] = name

    def _collisions(self) -> dict[str, str]:
        if self._forms is None:
            taken = [*self._image.topics, *self._added]
            self._forms = {collision_key(each): each for each in taken if _can_collide(each)}
        return self._forms


def _can_collide(name: str) -> bool:
    return "." in name or "_" in name
