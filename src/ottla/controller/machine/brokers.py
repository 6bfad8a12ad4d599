"""Decisions about brokers: who is in the cluster, who lives, who is about to stop.

The metadata store knows which sessions are alive; `follow_sessions` brings the image in step with
them, whatever happened since it was last asked. A broker whose session ended is fenced: it leaves the
ISRs, and others lead its partitions. One that comes back has a new session, and with its epoch it is a new
incarnation; if it did not stop cleanly, it may have lost the end of its logs, and new records may get
offsets that old ones had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ottla.common.broker_keys import BrokerConfig
from ottla.controller.machine.election import NO_COMEBACK, Comeback, is_well, settle, without_absent
from ottla.controller.machine.electorates import ELECTION_KEYS, Electorates
from ottla.controller.machine.internal_topics import grow_internal_topics
from ottla.controller.machine.requests import Decision
from ottla.metadata.entities import partition_changed
from ottla.metadata.image import BrokerImage, ClusterImage
from ottla.metadata.records import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    MetadataRecord,
    PartitionChanged,
)
from ottla.metadata.registration import SessionInfo
from ottla.protocol.errors import BrokerIdNotRegistered, InvalidRequest

R = TypeVar("R")
BrokerRecord = BrokerRegistered | BrokerChanged


def follow_sessions(
    image: ClusterImage, sessions: Sequence[SessionInfo], config: BrokerConfig
) -> Decision[None]:
    """Register, fence and stop brokers as their sessions say; settle the partitions that this concerns.

    All of it is one change: a broker that lost records is never taken for alive while it is in an ISR.
    """
    live = {each.node_id: each for each in sessions if each.registration.endpoints}
    brokers = list(_broker_records(image, live))
    if not brokers:
        return Decision(tuple(settle_all(image, config)), (None,))
    renewed = _renewed(image, brokers, live)
    lost = frozenset(each for each in renewed if live[each].registration.may_have_lost_records)
    doubtful = frozenset(each for each in lost if live[each].registration.seems_whole)
    after = image.apply(brokers)
    settled: list[MetadataRecord] = [*settle_all(after, config, Comeback(renewed, lost, doubtful))]
    if after.brokers.keys() > image.brokers.keys():
        settled += grow_internal_topics(after.apply(settled), config)
    return Decision((*brokers, *settled), (None,))


def settle_all(
    image: ClusterImage,
    config: BrokerConfig,
    comeback: Comeback = NO_COMEBACK,
) -> Iterator[PartitionChanged]:
    """Yield the changes to partitions that follow from the brokers of the image."""
    electorates = Electorates(image, config)
    for topic in image.topics.values():
        electorate = electorates.of(topic.name)
        for partition in topic.partitions:
            if is_well(partition, electorate, comeback.renewed):
                continue
            settled = settle(partition, without_absent(partition, electorate), electorate, comeback)
            if settled is not partition:
                yield partition_changed(topic.topic_id, settled)


def with_elections(image: ClusterImage, decision: Decision[R], config: BrokerConfig) -> Decision[R]:
    """Return a decision about configs with what follows from it for partitions, as one change.

    With a smaller min.insync.replicas, a leader may commit what the eligible replicas do not have: in the
    same moment they must be eligible no longer.
    """
    keys = {each.key for each in decision.records if isinstance(each, ConfigChanged)}
    if keys.isdisjoint(ELECTION_KEYS):
        return decision
    after = image.apply(decision.records)
    config = config.with_dynamic(after.broker_overrides(config.node_id), after.broker_overrides())
    return Decision((*decision.records, *settle_all(after, config)), decision.results)


def unregister_broker(image: ClusterImage, node_id: int) -> Decision[None]:
    """Forget a broker that is gone for good."""
    broker = image.brokers.get(node_id)
    if broker is None:
        return Decision((), (BrokerIdNotRegistered(f"there is no broker {node_id}"),))
    if not broker.fenced:
        return Decision((), (InvalidRequest(f"broker {node_id} is alive; stop it first"),))
    return Decision((BrokerUnregistered(node_id),), (None,))


def waits_for_leaders_to_move(image: ClusterImage, node_id: int) -> bool:
    """Return whether a broker that wants to stop still leads what another could lead."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced:
        return False
    if not broker.shutting_down:
        return True
    staying = {each.node_id for each in image.brokers.values() if each.can_lead}
    return any(
        partition.leader == node_id and not staying.isdisjoint(partition.isr)
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def _broker_records(image: ClusterImage, live: Mapping[int, SessionInfo]) -> Iterator[BrokerRecord]:
    for node_id, broker in image.brokers.items():
        if node_id not in live and not broker.fenced:
            yield BrokerChanged(node_id, broker.epoch, fenced=True, shutting_down=broker.shutting_down)
    for node_id, session in live.items():
        registration = session.registration
        wanted = BrokerImage(
            node_id,
            session.broker_epoch,
            registration.rack,
            registration.endpoints,
            shutting_down=registration.wants_shutdown,
        )
        before = image.brokers.get(node_id)
        if before == wanted or (before is not None and before.epoch > wanted.epoch):
            continue
        if before is not None and before == wanted._replace(shutting_down=before.shutting_down):
            yield BrokerChanged(node_id, before.epoch, fenced=False, shutting_down=wanted.shutting_down)
        else:
            yield BrokerRegistered(*wanted)


def _renewed(
    image: ClusterImage, changes: Iterable[BrokerRecord], live: Mapping[int, SessionInfo]
) -> frozenset[int]:
    """Return the brokers that come back from an unclean stop."""
    registered = [each for each in changes if isinstance(each, BrokerRegistered)]
    return frozenset(
        each.node_id
        for each in registered
        if live[each.node_id].registration.after_unclean_stop
        and ((before := image.brokers.get(each.node_id)) is None or before.epoch != each.broker_epoch)
    )
