"""Move replicas automatically until each topic is spread evenly (`ottla.auto.balance.enable`).

A few partitions at a time, and only in a healthy cluster: every broker is alive, every replica in
sync, and no reassignment in progress. Counts decide, not sizes, which the controller does not know. Leaders
follow by the election of preferred leaders.
"""

from __future__ import annotations

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.common.placement import spread
from ottla.controller.machine.reassignment import Reassignment, reassign
from ottla.controller.machine.requests import Decision
from ottla.metadata.image import ClusterImage

MAX_PARTITIONS = 5_000
"""Larger clusters are balanced with `ottla cluster reassign`: the plan would block the controller."""


def balance_replicas(image: ClusterImage, config: BrokerConfig) -> Decision[int]:
    """Start the next few moves; the result is their number."""
    if not _is_calm(image):
        return Decision((), (0,))
    now = {
        TopicPartition(topic.name, each.index): each.replicas
        for topic in image.topics.values()
        for each in topic.partitions
    }
    if len(now) > MAX_PARTITIONS:
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
