"""Decisions about a backup: create what it has and the cluster has not.

What exists is left as it is, unless the request says to overwrite it: an interrupted restore can be repeated.
A topic of the same name and another id is another topic, as if the backup is of another cluster: it gets no
partitions, which could not be removed again, and no configs, which could delete its records.
In a new cluster with all of its brokers, topics keep their ids. A topic that was deleted in the cluster gets
another one: a broker that was away at that time still has its log, and with the same id would take it for
that of the new topic, with other records at the same offsets and in the same leader epochs. Replicas are
placed as in the backup if the cluster has all of those brokers, otherwise anew. Brokers, the controller and
the topics of the brokers themselves are not restored: the cluster has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar
from uuid import uuid5

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import uuid_text
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.controller.machine.acls import create_acls
from ottla.controller.machine.configs import alter_configs
from ottla.controller.machine.quotas import QuotaAlteration, alter_client_quotas
from ottla.controller.machine.requests import (
    ConfigAlteration,
    ConfigChange,
    Decision,
    NewPartitions,
    NewTopic,
)
from ottla.controller.machine.topics import create_partitions, create_topics
from ottla.metadata.entities import scram_changed
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.metadata.records import (
    ConfigResource,
    DelegationTokenSet,
    MetadataRecord,
    ProducerIdsAllocated,
    ScramSecretCreated,
)
from ottla.protocol.errors import KafkaError
from ottla.security.acls import AclBinding, Operation, Permission, ResourceType
from ottla.security.quota_entities import entity_text

V = TypeVar("V")

CREATED, CHANGED, SAME, DIFFERS, FAILED = "created", "changed", "same", "differs", "failed"
BROKERS_OWN = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})

Found = Iterator[tuple["Restored", tuple[MetadataRecord, ...]]]


class Restored(NamedTuple):
    """What became of one thing of a backup."""

    kind: str
    """topic, partitions, configs, acl, quotas, user, token or producer-ids"""
    name: str
    action: str
    detail: str = ""

    @property
    def is_change(self) -> bool:
        """Return whether the cluster was changed."""
        return self.action in (CREATED, CHANGED)


def restore_metadata(
    image: ClusterImage, backup: ClusterImage, config: BrokerConfig, *, overwrite: bool = False
) -> Decision[Restored]:
    """Create what is missing; with `overwrite`, also change what differs."""
    restoring = _Restoring(image, backup, config, overwrite)
    records: list[MetadataRecord] = []
    results: list[Restored | KafkaError] = []
    for part in (
        restoring.topics,
        restoring.configs,
        restoring.quotas,
        restoring.acls,
        restoring.users,
        restoring.tokens,
        restoring.producer_ids,
    ):
        for outcome, added in part():
            results.append(outcome)
            records.extend(added)
            restoring.image = restoring.image.apply(added) if added else restoring.image
    return Decision(tuple(records), tuple(results))


class _Restoring:
    """One restore; `image` is the cluster after what was decided so far."""

    def __init__(
        self, image: ClusterImage, backup: ClusterImage, config: BrokerConfig, overwrite: bool
    ) -> None:
        self.image = image
        self._backup = backup
        self._config = config
        self._overwrite = overwrite
        self._strangers: set[str] = set()
        """The topics that the cluster has with another id, and that are not to be changed."""
        self._keeps_ids = (
            image.cluster_id != backup.cluster_id
            and not any(image.topic_by_id(each.topic_id) for each in backup.topics.values())
            and not any(each.fenced for each in image.brokers.values())
        )
        """Whether no broker can have a log of the backup's topics: an earlier restore created them, they were
        deleted, and a broker has been away since."""

    def topics(self) -> Found:
        """Create topics and missing partitions."""
        for topic in self._backup.topics.values():
            if topic.name in BROKERS_OWN:
                continue
            has = self.image.topics.get(topic.name)
            if has is None:
                yield self._new_topic(topic)
                continue
            if has.topic_id != topic.topic_id:
                ids = f"its id is {uuid_text(has.topic_id)}, not {uuid_text(topic.topic_id)}"
                yield Restored("topic", topic.name, DIFFERS, ids), ()
                if not self._overwrite:
                    self._strangers.add(topic.name)
            else:
                yield Restored("topic", topic.name, SAME), ()
            if len(has.partitions) < len(topic.partitions) and topic.name not in self._strangers:
                yield self._more_partitions(has, topic)
            elif len(has.partitions) != len(topic.partitions):
                more = f"{len(has.partitions)}, not {len(topic.partitions)}"
                yield Restored("partitions", topic.name, DIFFERS, more), ()

    def _new_topic(self, topic: TopicImage) -> tuple[Restored, tuple[MetadataRecord, ...]]:
        count, factor = len(topic.partitions), topic.replication_factor
        if (other := self.image.topic_by_id(topic.topic_id)) is not None:
            return Restored("topic", topic.name, FAILED, f"topic {other.name} has its id"), ()
        configs = tuple(self._backup.topic_overrides(topic.name).items())
        placed = NewTopic(topic.name, assignments=self._assignments(topic), configs=configs)
        anew = NewTopic(topic.name, count, min(factor, self._alive), configs=configs)
        detail = f"{count} partitions, replication factor {factor}"
        decision = self._create(placed, topic)
        if isinstance(decision.results[0], KafkaError):
            decision = self._create(anew, topic)
            if factor > self._alive:
                detail = f"{count} partitions, replication factor {self._alive} (was {factor})"
        if isinstance(error := decision.results[0], KafkaError):
            return Restored("topic", topic.name, FAILED, str(error)), ()
        return Restored("topic", topic.name, CREATED, detail), decision.records

    def _create(self, wanted: NewTopic, topic: TopicImage) -> Decision[TopicImage]:
        topic_id = topic.topic_id
        if not self._keeps_ids:
            topic_id = uuid5(topic_id, f"{self.image.cluster_id} {self.image.version}")
        return create_topics(self.image, [wanted], [topic_id], self._config)

    def _assignments(self, topic: TopicImage) -> tuple[tuple[int, tuple[int, ...]], ...]:
        return tuple((each.index, each.target) for each in topic.partitions)

    @property
    def _alive(self) -> int:
        return max(1, sum(each.can_lead for each in self.image.brokers.values()))

    def _more_partitions(
        self, has: TopicImage, topic: TopicImage
    ) -> tuple[Restored, tuple[MetadataRecord, ...]]:
        before, after = len(has.partitions), len(topic.partitions)
        decision = create_partitions(self.image, [NewPartitions(topic.name, after)])
        if isinstance(error := decision.results[0], KafkaError):
            return Restored("partitions", topic.name, FAILED, str(error)), ()
        return Restored("partitions", topic.name, CHANGED, f"{before} -> {after}"), decision.records

    def configs(self) -> Found:
        """Set configs of topics, brokers, groups and client metrics."""
        for (resource_type, name), values in self._backup.configs.items():
            if resource_type == ConfigResource.TOPIC and (
                name in BROKERS_OWN or name not in self._backup.topics
            ):
                continue
            shown = f"{ConfigResource(resource_type).name.lower()} {name or 'defaults'}"
            has = self.image.configs.get((ConfigResource(resource_type), name), {})
            if resource_type == ConfigResource.TOPIC and name in self._strangers:
                action, detail = _difference(has, values)
                yield Restored("configs", shown, action, detail), ()
                continue
            wanted, action, detail = self._compare(has, values)
            changes = tuple(ConfigChange(key, value) for key, value in wanted.items())
            decision = alter_configs(
                self.image, [ConfigAlteration(resource_type, name, changes)] if changes else [], self._config
            )
            yield self._decided("configs", shown, action, detail, decision)

    def quotas(self) -> Found:
        """Set quotas."""
        for entity, values in self._backup.client_quotas.items():
            wanted, action, detail = self._compare(self.image.client_quotas.get(entity, {}), values)
            alterations = [QuotaAlteration(entity, tuple(wanted.items()))] if wanted else []
            decision = alter_client_quotas(self.image, alterations)
            yield self._decided("quotas", entity_text(entity), action, detail, decision)

    def acls(self) -> Found:
        """Add ACLs."""
        for acl in self._backup.acls:
            is_new = acl not in self.image.acls
            decision = create_acls(self.image, [acl] if is_new else [])
            yield self._decided("acl", _acl_text(acl), CREATED if is_new else SAME, "", decision)

    def users(self) -> Found:
        """Add SCRAM users, with the keys of the backup."""
        if self._backup.scram_secret and not self.image.scram_secret:
            secret = ScramSecretCreated(self._backup.scram_secret)
            yield Restored("user", "secret of unknown users", CREATED), (secret,)
        for (mechanism, user), credential in self._backup.scram_credentials.items():
            name, has = f"{user} ({mechanism})", self.image.scram_credentials.get((mechanism, user))
            record = (scram_changed(user, mechanism, credential),)
            if has is None:
                yield Restored("user", name, CREATED), record
            elif has == credential:
                yield Restored("user", name, SAME), ()
            elif self._overwrite:
                yield Restored("user", name, CHANGED, "its password is that of the backup"), record
            else:
                yield Restored("user", name, DIFFERS, "it has another password"), ()

    def tokens(self) -> Found:
        """Add delegation tokens."""
        for token_id, token in self._backup.tokens.items():
            if token_id in self.image.tokens:
                yield Restored("token", token_id, SAME), ()
            else:
                yield Restored("token", token_id, CREATED, f"of {token.owner}"), (DelegationTokenSet(*token),)

    def producer_ids(self) -> Found:
        """Allocate no producer id that the records of the old cluster may have."""
        wanted = self._backup.next_producer_id
        if wanted > self.image.next_producer_id:
            yield Restored("producer-ids", f"below {wanted}", CREATED), (ProducerIdsAllocated(wanted),)

    def _compare(self, has: Mapping[str, V], wanted: Mapping[str, V]) -> tuple[dict[str, V], str, str]:
        """Return what to set, and what that is."""
        missing = {key: value for key, value in wanted.items() if key not in has}
        other = {key: value for key, value in wanted.items() if key in has and has[key] != value}
        shown = ", ".join(f"{key} is {has[key]}, not {value}" for key, value in other.items())
        if other and self._overwrite:
            return missing | other, CHANGED, ", ".join(f"{key}={value}" for key, value in other.items())
        if missing:
            return missing, CREATED, ", ".join(f"{key}={value}" for key, value in missing.items())
        return {}, DIFFERS if other else SAME, shown

    def _decided(
        self, kind: str, name: str, action: str, detail: str, decision: Decision[None]
    ) -> tuple[Restored, tuple[MetadataRecord, ...]]:
        for result in decision.results:
            if isinstance(result, KafkaError):
                return Restored(kind, name, FAILED, str(result)), ()
        return Restored(kind, name, action, detail), decision.records


def _difference(has: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, str]:
    """Return whether all is as wanted, and what is not."""
    other = {key: has.get(key, "not set") for key, value in wanted.items() if has.get(key) != value}
    shown = ", ".join(f"{key} is {value}, not {wanted[key]}" for key, value in other.items())
    return DIFFERS if other else SAME, shown


def _acl_text(acl: AclBinding) -> str:
    return (
        f"{acl.principal} {Permission(acl.permission).name.lower()} {Operation(acl.operation).name.lower()} "
        f"{ResourceType(acl.resource_type).name.lower()} {acl.resource_name}"
    )
