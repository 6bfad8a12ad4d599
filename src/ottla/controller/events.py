"""What the controller decided, as log lines: one for each event. Pure.

    broker-registered, broker-fenced, broker-draining, broker-unregistered
    leader-elected (clean or unclean), partition-offline, disk-full, disk-has-room
    topic-created, topic-deleted, partitions-added, config-changed
    reassignment-started, reassignment-ended

The events are derived from the images before and after a change, so every change is logged, whichever broker
requested it. A broker that returns to the partitions that it led before is one line. A change of thousands
of partitions logs the first MAX_LINES of a kind, and how many more.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.metadata.entities import CLEAN, LAST_LEADER, UNCLEAN, election_kind
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage, diff_images
from ottla.metadata.records import ConfigResource

logger = logging.getLogger("ottla.controller.events")

MAX_LINES = 200
INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR
HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name, what it says, and the same in parts."""

    name: str
    text: str
    level: int = INFO
    fields: Mapping[str, object] = field(default_factory=dict)


def log_events(old: ClusterImage, new: ClusterImage) -> None:
    """Write a line for each event between two images; a line that fails does not fail the change."""
    try:
        _log_events(old, new)
    except Exception:
        logger.exception("the events of metadata version %d are not in the log", new.version)


def _log_events(old: ClusterImage, new: ClusterImage) -> None:
    counts: dict[str, int] = {}
    kept: dict[object, int] = {}
    for each in events(old, new):
        if each.name == "leader-elected" and each.level == INFO and _is_kept(each):
            kept[each.fields["leader"]] = kept.get(each.fields["leader"], 0) + 1
            continue
        counts[each.name] = counts.get(each.name, 0) + 1
        if counts[each.name] <= MAX_LINES:
            logger.log(each.level, "%s", each.text, extra={"event": each.name, **each.fields})
    for name, number in counts.items():
        if number > MAX_LINES:
            left_out = {"event": name, "left_out": number - MAX_LINES}
            logger.warning("%d more events %s in this change", number - MAX_LINES, name, extra=left_out)

    for leader, number in kept.items():
        fields = {"event": "leaders-kept", "leader": leader, "partitions": number}
        logger.info("broker %s leads %d partitions again, after its restart", leader, number, extra=fields)


def _is_kept(event: Event) -> bool:
    """Return whether the leader is the same broker as before: a restart of it makes a new epoch, no news."""
    return event.fields["leader"] == event.fields["previous_leader"]


def events(old: ClusterImage, new: ClusterImage) -> Iterator[Event]:
    """Yield what happened between two images: brokers first, then topics, partitions and configs."""
    if old.brokers is not new.brokers:
        yield from _brokers(old, new)
    changes = diff_images(old, new)
    for topic in changes.deleted:
        yield Event("topic-deleted", f"topic {topic.name} deleted", fields={"topic": topic.name})
    for topic in changes.created:
        yield _created(topic)
    yield from _disks(old, changes.changed)
    for topic in changes.changed:
        yield from _partitions(old.topics[topic.name], topic)
    for kind, name in sorted(changes.configs):
        if kind == ConfigResource.TOPIC and name not in new.topics:
            continue  # deleted with its topic
        yield from _configs(old, new, kind, name)


def _brokers(old: ClusterImage, new: ClusterImage) -> Iterator[Event]:
    for node_id, after in new.brokers.items():
        before, fields = old.brokers.get(node_id), {"broker": node_id, "broker_epoch": after.epoch}
        if before is after:
            continue
        if after.fenced:
            if before is not None and not before.fenced:
                text = f"broker {node_id} fenced: its session has ended"
                yield Event("broker-fenced", text, WARNING, fields)
        elif before is None or before.fenced or before.epoch != after.epoch:
            what = "joined the cluster" if before is None else "returned"
            text = f"broker {node_id} {what}, broker epoch {after.epoch}"
            gone = frozenset[str]() if before is None else before.directories - after.directories
            if gone and before is not None and before.directories.isdisjoint(after.directories):
                yield Event(
                    "broker-registered", f"{text}, with ANOTHER log directory: it is empty", ERROR, fields
                )
            elif gone:
                which = ", ".join(sorted(gone))
                text = f"{text}, WITHOUT its log directory {which}: the replicas in it are copied again"
                yield Event("broker-registered", text, ERROR, fields)
            else:
                yield Event("broker-registered", text, INFO, fields)
        if after.shutting_down and not after.fenced and (before is None or not before.shutting_down):
            text = f"broker {node_id} drains: it is stopping, or its disks are full"
            yield Event("broker-draining", text, INFO, fields)
    for node_id in old.brokers.keys() - new.brokers.keys():
        text = f"broker {node_id} unregistered"
        yield Event("broker-unregistered", text, INFO, {"broker": node_id})


def _created(topic: TopicImage) -> Event:
    number = len(topic.partitions)
    text = f"topic {topic.name} created, partitions {number}, replication factor {topic.replication_factor}"
    return Event("topic-created", text, fields={"topic": topic.name, "partitions": number})


def _disks(old: ClusterImage, changed: Iterable[TopicImage]) -> Iterator[Event]:
    """Yield an event for each broker that has one of several log directories full, or no longer."""
    filled, emptied = Counter[int](), Counter[int]()
    for topic in changed:
        for before, after in zip(old.topics[topic.name].partitions, topic.partitions, strict=False):
            if before.full != after.full:
                filled.update(set(after.full) - set(before.full))
                emptied.update(set(before.full) - set(after.full))
    for node_id, number in filled.items():
        text = f"broker {node_id}: a log directory is full: others lead what it has of {number} partitions"
        yield Event("disk-full", text, WARNING, {"broker": node_id, "partitions": number})
    for node_id, number in emptied.items():
        text = f"broker {node_id}: replicas of {number} partitions are no longer in a full log directory"
        yield Event("disk-has-room", text, INFO, {"broker": node_id, "partitions": number})


def _partitions(old: TopicImage, new: TopicImage) -> Iterator[Event]:
    added = len(new.partitions) - len(old.partitions)
    if added > 0:
        fields: dict[str, object] = {"topic": new.name, "partitions": len(new.partitions)}
        yield Event("partitions-added", f"topic {new.name}: {added} partitions added", fields=fields)
    for before, after in zip(old.partitions, new.partitions, strict=False):
        if before is not after:
            yield from _partition(new.name, before, after)


def _partition(topic: str, before: PartitionImage, after: PartitionImage) -> Iterator[Event]:
    name = f"{topic}-{after.index}"
    fields: dict[str, object] = {"topic": topic, "partition": after.index, "isr": list(after.isr)}
    if before.is_reassigning != after.is_reassigning:
        what = "started" if after.is_reassigning else "ended"
        text = f"{name}: reassignment {what}, replicas {_nodes(after.replicas)}"
        yield Event(f"reassignment-{what}", text, INFO, {**fields, "replicas": list(after.replicas)})
    if after.leader == before.leader and after.leader_epoch == before.leader_epoch:
        return
    fields |= {"leader": after.leader, "previous_leader": before.leader, "leader_epoch": after.leader_epoch}
    if after.leader < 0:
        held = _nodes(after.replicas)
        text = f"{name} is OFFLINE: no replica that has all records is alive (replicas {held})"
        yield Event("partition-offline", text, ERROR, fields)
        return
    epoch = f"in epoch {after.leader_epoch}, ISR {_nodes(after.isr)}"
    text = f"{name}: broker {after.leader} elected leader instead of {before.leader}, {epoch}"
    kind = election_kind(before, after)
    level, consequence = CONSEQUENCES[kind]
    yield Event("leader-elected", f"{text}{consequence}", level, {**fields, "election": kind})


CONSEQUENCES = {
    CLEAN: (INFO, ""),
    LAST_LEADER: (
        WARNING,
        ". It was the last leader before a power failure: unflushed records may be lost",
    ),
    UNCLEAN: (ERROR, ". UNCLEAN: records that only other replicas had are LOST"),
}
"""By the kind of an election: the level, and what the line says of it."""


def _configs(old: ClusterImage, new: ClusterImage, kind: int, name: str) -> Iterator[Event]:
    before, after = old.configs.get((kind, name), {}), new.configs.get((kind, name), {})
    resource = ConfigResource(kind).name.lower()
    where = f"{resource} {name}" if name else f"all {resource}s"
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key):
            continue
        value = _shown(kind, key, after.get(key))
        text = f"config of {where}: {key} " + ("reset to its default" if value is None else f"set to {value}")
        fields: dict[str, object] = {"resource": resource, "resource_name": name, "key": key, "value": value}
        yield Event("config-changed", text, INFO, fields)


def _shown(kind: int, key: str, value: str | None) -> str | None:
    """Return a value for the log: that of a password, a private key or an unknown broker key is hidden."""
    if value is None or kind != ConfigResource.BROKER:
        return value
    try:
        return value if BrokerConfig.key(key).shown(value) is not None else HIDDEN
    except ConfigError:  # of a newer release
        return HIDDEN


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes)) or "none"
