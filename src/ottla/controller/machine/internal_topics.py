"""More copies of the brokers' own topics, when there are more brokers.

The first consumer makes `__consumer_offsets`, perhaps while the first broker is still alone; its
committed offsets must survive that broker's death all the same. So whenever a broker joins the cluster, the
internal topics that have fewer replicas than they are configured to have get more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ottla.common.config.broker import BrokerConfig
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.controller.machine.election import settle
from ottla.controller.machine.electorates import Electorates
from ottla.controller.machine.reassignment import moved_to
from ottla.controller.machine.topics import safe_minimum
from ottla.metadata.entities import partition_changed
from ottla.metadata.image import ClusterImage, PartitionImage
from ottla.metadata.records import ConfigChanged, ConfigResource, MetadataRecord

FACTORS = {
    CONSUMER_OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
}
"""Which config says how many replicas an internal topic has."""


def grow_internal_topics(image: ClusterImage, config: BrokerConfig) -> Iterator[MetadataRecord]:
    """Yield the moves that give internal topics the replicas that they are configured to have."""
    staying = [each.node_id for each in image.brokers.values() if each.can_lead]
    for name, key in FACTORS.items():
        topic = image.topics.get(name)
        if topic is None or key not in config.KEYS:
            continue
        wanted = min(getattr(config, config.KEYS[key].attribute), len(staying))
        load = Counter(dict.fromkeys(sorted(staying), 0))
        load.update(node for each in topic.partitions for node in each.target if node in load)
        electorate = Electorates(image, config).of(name)
        for partition in topic.partitions:
            target = _grown(partition, wanted, load)
            if target != partition.target:
                moving = settle(partition, moved_to(partition, target), electorate)
                yield partition_changed(topic.topic_id, moving)
        if wanted > topic.replication_factor:
            for setting in safe_minimum(image.topic_overrides(name), wanted, config).items():
                yield ConfigChanged(ConfigResource.TOPIC, name, *setting)


def _grown(partition: PartitionImage, wanted: int, load: Counter[int]) -> tuple[int, ...]:
    target = list(partition.target)
    while len(target) < wanted:
        chosen = min((each for each in load if each not in target), key=lambda each: load[each])
        target.append(chosen)
        load[chosen] += 1
    return tuple(target)
