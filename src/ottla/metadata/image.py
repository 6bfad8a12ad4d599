"""The cluster as one broker sees it: an immutable value, folded from the metadata log.

`apply` makes a new image that shares everything unchanged, so that an image is cheap to make (one copy of the
dictionaries that changed, regardless of the number of records) and `diff_images` can find by identity which
topics differ. `records()` is the inverse of `apply`: folding them into `EMPTY` gives an equal image. A store
uses it to replace the start of its log by a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from uuid import UUID

from ottla.metadata.entities import (
    BrokerImage,
    PartitionImage,
    TopicImage,
    broker_of,
    partition_created,
    partition_of,
    scram_changed,
    scram_credential_of,
)
from ottla.metadata.records import (
    AclCreated,
    AclDeleted,
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterCreated,
    ConfigChanged,
    ConfigResource,
    ControllerElected,
    DelegationTokenDeleted,
    DelegationTokenSet,
    MetadataError,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    ScramSecretCreated,
    TopicCreated,
    TopicDeleted,
)
from ottla.security.acls import AclBinding
from ottla.security.delegation_tokens import DelegationToken
from ottla.security.quota_entities import QuotaEntity, QuotaMap
from ottla.security.scram import ScramCredential

NO_QUOTAS: Mapping[str, float] = {}
NO_CONFIGS: Mapping[str, str] = {}
MAINTENANCE_KEY = "ottla.broker.maintenance"
"""The dynamic config of a broker that is in maintenance."""
ConfigKey = tuple[int, str]

__all__ = [
    "EMPTY",
    "MAINTENANCE_KEY",
    "BrokerImage",
    "ClusterImage",
    "ConfigKey",
    "ImageChanges",
    "PartitionImage",
    "TopicImage",
    "diff_images",
]


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The whole cluster after the first `version` entries of the metadata log."""

    version: int = 0
    cluster_id: str = ""
    controller_id: int = -1
    controller_epoch: int = 0
    next_producer_id: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    names_by_id: Mapping[UUID, str] = field(default_factory=dict)
    configs: Mapping[ConfigKey, Mapping[str, str]] = field(default_factory=dict)
    client_quotas: QuotaMap = field(default_factory=dict)
    acls: Mapping[AclBinding, None] = field(default_factory=dict)
    """An ordered set."""
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """Delegation tokens by their ids."""
    scram_credentials: Mapping[tuple[str, str], ScramCredential] = field(default_factory=dict)
    """By mechanism and user."""
    scram_secret: str = ""
    """What the salts of users who do not exist are derived from; "" before there are users."""

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """Return the topic with this id."""
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """Return one partition of a topic."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def reachable(self, listener: str) -> frozenset[int]:
        """Return the live brokers that clients of `listener` can reach."""
        brokers = self.brokers.values()
        return frozenset(each.node_id for each in brokers if not each.fenced and each.endpoint(listener))

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """Return the configs set on the topic itself."""
        return self.configs.get((ConfigResource.TOPIC, name), NO_CONFIGS)

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """Return the configs set on a group."""
        return self.configs.get((ConfigResource.GROUP, group_id), NO_CONFIGS)

    def client_metrics_overrides(self, name: str) -> Mapping[str, str]:
        """Return the configs of a subscription to client metrics."""
        return self.configs.get((ConfigResource.CLIENT_METRICS, name), NO_CONFIGS)

    def broker_overrides(self, node_id: int | str = "") -> Mapping[str, str]:
        """Return the dynamic configs of one broker, or with "" of all of them."""
        return self.configs.get((ConfigResource.BROKER, str(node_id)), NO_CONFIGS)

    @property
    def in_maintenance(self) -> frozenset[int]:
        """Return the brokers in maintenance: they lead only what no other can, and get no new replicas."""
        return frozenset(
            node_id
            for node_id in self.brokers
            if self.broker_overrides(node_id).get(MAINTENANCE_KEY, "").lower() == "true"
        )

    def apply(self, records: Iterable[MetadataRecord], version: int | None = None) -> ClusterImage:
        """Return the image after `records`, which are the entry `version` of the log (default: the next
        one).
        """
        draft = _Draft(self)
        for record in records:
            draft.replay(record)
        return draft.image(self.version + 1 if version is None else version)

    @property
    def record_count(self) -> int:
        """Return about how many records `records` yields."""
        return (
            len(self.brokers)
            + len(self.configs)
            + len(self.client_quotas)
            + len(self.acls)
            + len(self.tokens)
            + len(self.scram_credentials)
            + sum(1 + len(each.partitions) for each in self.topics.values())
        )

    def records(self) -> Iterator[MetadataRecord]:
        """Yield records that create this image from `EMPTY`."""
        if self.cluster_id:
            yield ClusterCreated(self.cluster_id)
        if self.controller_epoch:
            yield ControllerElected(self.controller_id, self.controller_epoch)
        if self.next_producer_id:
            yield ProducerIdsAllocated(self.next_producer_id)
        for broker in self.brokers.values():
            yield BrokerRegistered(*broker)
        for topic in self.topics.values():
            yield TopicCreated(topic.name, topic.topic_id)
            for each in topic.partitions:
                yield partition_created(topic.topic_id, each)
        for (resource_type, name), values in self.configs.items():
            for key, value in values.items():
                yield ConfigChanged(resource_type, name, key, value)
        for entity, quotas in self.client_quotas.items():
            for key, bound in quotas.items():
                yield ClientQuotaChanged(entity, key, bound)
        for acl in self.acls:
            yield AclCreated(*acl)
        for token in self.tokens.values():
            yield DelegationTokenSet(*token)
        if self.scram_secret:
            yield ScramSecretCreated(self.scram_secret)
        for (mechanism, user), credential in self.scram_credentials.items():
            yield scram_changed(user, mechanism, credential)


EMPTY = ClusterImage()


@dataclass(frozen=True, slots=True)
class ImageChanges:
    """The differences between two images.

    `changed` are the topics that gained partitions, or whose partitions have another leader, epoch, ISR or
    replicas.
    """

    created: tuple[TopicImage, ...]
    deleted: tuple[TopicImage, ...]
    changed: tuple[TopicImage, ...]
    configs: frozenset[ConfigKey]


def diff_images(old: ClusterImage, new: ClusterImage) -> ImageChanges:
    """Compare two images; a topic that was deleted and recreated is in both lists."""
    created: list[TopicImage] = []
    deleted: list[TopicImage] = []
    changed: list[TopicImage] = []
    if old.topics is not new.topics:
        for name, topic in new.topics.items():
            before = old.topics.get(name)
            if before is topic:
                continue
            if before is None or before.topic_id != topic.topic_id:
                created.append(topic)
            elif before != topic:
                changed.append(topic)
        for name, topic in old.topics.items():
            after = new.topics.get(name)
            if after is None or after.topic_id != topic.topic_id:
                deleted.append(topic)
    configs: frozenset[ConfigKey] = frozenset()
    if old.configs is not new.configs:
        either = old.configs.keys() | new.configs.keys()
        configs = frozenset(key for key in either if old.configs.get(key) != new.configs.get(key))
    return ImageChanges(tuple(created), tuple(deleted), tuple(changed), configs)


class _Draft:
    """An image being changed: copies a dictionary when it is first modified."""

    def __init__(self, base: ClusterImage) -> None:
        self._base = base
        self._brokers: dict[int, BrokerImage] | None = None
        self._topics: dict[str, TopicImage] | None = None
        self._names_by_id: dict[UUID, str] | None = None
        self._configs: dict[ConfigKey, Mapping[str, str]] | None = None
        self._client_quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._acls: dict[AclBinding, None] | None = None
        self._tokens: dict[str, DelegationToken] | None = None
        # Partitions of the topics being changed, as lists: a topic may gain thousands at once.
        self._partitions: dict[UUID, list[PartitionImage]] = {}
        self._cluster_id = base.cluster_id
        self._controller = (base.controller_id, base.controller_epoch)
        self._next_producer_id = base.next_producer_id
        self._scram: dict[tuple[str, str], ScramCredential] | None = None
        self._scram_secret = base.scram_secret

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record."""
        match record:
            case PartitionCreated(topic_id, index):
                self._add_partition(topic_id, index, partition_of(record))
            case PartitionChanged(topic_id, index):
                self._change_partition(topic_id, index, partition_of(record))
            case TopicCreated(name, topic_id):
                self._create_topic(name, topic_id)
            case TopicDeleted(topic_id):
                self._delete_topic(topic_id)
            case ConfigChanged(resource_type, name, key, value):
                self._set_config((resource_type, name), key, value)
            case ClientQuotaChanged(entity, key, bound):
                self._set_quota(entity, key, bound)
            case AclCreated():
                self._acls_draft()[AclBinding(*_acl_fields(record))] = None
            case AclDeleted():
                self._acls_draft().pop(AclBinding(*_acl_fields(record)), None)
            case DelegationTokenSet(token_id):
                self._tokens_draft()[token_id] = DelegationToken(*_token_fields(record))
            case DelegationTokenDeleted(token_id):
                self._tokens_draft().pop(token_id, None)
            case ProducerIdsAllocated(next_producer_id):
                self._next_producer_id = max(self._next_producer_id, next_producer_id)
            case BrokerRegistered(node_id):
                self._brokers_draft()[node_id] = broker_of(record)
            case BrokerChanged(node_id):
                self._change_broker(record)
            case BrokerUnregistered(node_id):
                self._brokers_draft().pop(node_id, None)
            case ScramCredentialChanged(user, mechanism):
                self._scram_draft()[mechanism, user] = scram_credential_of(record)
            case ScramCredentialRemoved(user, mechanism):
                self._scram_draft().pop((mechanism, user), None)
            case ScramSecretCreated(secret):
                self._scram_secret = secret
            case ControllerElected(node_id, controller_epoch):
                self._controller = (node_id, controller_epoch)
            case ClusterCreated(cluster_id):
                if self._cluster_id:
                    raise MetadataError(f"the cluster {self._cluster_id} was created twice")
                self._cluster_id = cluster_id

    def image(self, version: int) -> ClusterImage:
        """Return the finished image."""
        base = self._base
        for topic_id, partitions in self._partitions.items():
            topics, names = self._topics_draft()
            name = names[topic_id]
            topics[name] = replace(topics[name], partitions=tuple(partitions))
        return ClusterImage(
            version=version,
            cluster_id=self._cluster_id,
            controller_id=self._controller[0],
            controller_epoch=self._controller[1],
            next_producer_id=self._next_producer_id,
            brokers=base.brokers if self._brokers is None else self._brokers,
            topics=base.topics if self._topics is None else self._topics,
            names_by_id=base.names_by_id if self._names_by_id is None else self._names_by_id,
            configs=base.configs if self._configs is None else self._configs,
            client_quotas=base.client_quotas if self._client_quotas is None else self._client_quotas,
            acls=base.acls if self._acls is None else self._acls,
            tokens=base.tokens if self._tokens is None else self._tokens,
            scram_credentials=base.scram_credentials if self._scram is None else self._scram,
            scram_secret=self._scram_secret,
        )

    def _acls_draft(self) -> dict[AclBinding, None]:
        if self._acls is None:
            self._acls = dict(self._base.acls)
        return self._acls

    def _tokens_draft(self) -> dict[str, DelegationToken]:
        if self._tokens is None:
            self._tokens = dict(self._base.tokens)
        return self._tokens

    def _scram_draft(self) -> dict[tuple[str, str], ScramCredential]:
        if self._scram is None:
            self._scram = dict(self._base.scram_credentials)
        return self._scram

    def _brokers_draft(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self._base.brokers)
        return self._brokers

    def _change_broker(self, record: BrokerChanged) -> None:
        brokers = self._brokers_draft()
        broker = brokers.get(record.node_id)
        if broker is None or broker.epoch != record.broker_epoch:
            raise MetadataError(
                f"broker {record.node_id} of epoch {record.broker_epoch} changed but is not there"
            )
        brokers[record.node_id] = broker._replace(fenced=record.fenced, shutting_down=record.shutting_down)

    def _topics_draft(self) -> tuple[dict[str, TopicImage], dict[UUID, str]]:
        if self._topics is None or self._names_by_id is None:
            self._topics = dict(self._base.topics)
            self._names_by_id = dict(self._base.names_by_id)
        return self._topics, self._names_by_id

    def _create_topic(self, name: str, topic_id: UUID) -> None:
        topics, names = self._topics_draft()
        if name in topics or topic_id in names:
            raise MetadataError(f"the topic {name} was created twice")
        topics[name] = TopicImage(name, topic_id)
        names[topic_id] = name

    def _delete_topic(self, topic_id: UUID) -> None:
        topics, names = self._topics_draft()
        name = names.pop(topic_id, None)
        if name is None:
            raise MetadataError(f"the topic with id {topic_id} was deleted but never created")
        del topics[name]
        self._partitions.pop(topic_id, None)
        self._configs_draft().pop((ConfigResource.TOPIC, name), None)

    def _partitions_of(self, topic_id: UUID) -> list[PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topics, names = self._topics_draft()
            if topic_id not in names:
                raise MetadataError(f"a partition of the unknown topic id {topic_id}")
            partitions = self._partitions[topic_id] = list(topics[names[topic_id]].partitions)
        return partitions

    def _add_partition(self, topic_id: UUID, index: int, partition: PartitionImage) -> None:
        partitions = self._partitions_of(topic_id)
        if index != len(partitions):
            raise MetadataError(f"partition {index} of topic id {topic_id} is out of order")
        partitions.append(partition)

    def _change_partition(self, topic_id: UUID, index: int, partition: PartitionImage) -> None:
        partitions = self._partitions_of(topic_id)
        if not 0 <= index < len(partitions):
            raise MetadataError(f"partition {index} of topic id {topic_id} changed but does not exist")
        partitions[index] = partition

    def _configs_draft(self) -> dict[ConfigKey, Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self._base.configs)
        return self._configs

    def _set_config(self, resource: ConfigKey, key: str, value: str | None) -> None:
        configs = self._configs_draft()
        values = dict(configs.get(resource, NO_CONFIGS))
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        if values:
            configs[resource] = values
        else:
            configs.pop(resource, None)

    def _set_quota(self, entity: QuotaEntity, key: str, bound: float | None) -> None:
        if self._client_quotas is None:
            self._client_quotas = dict(self._base.client_quotas)
        values = dict(self._client_quotas.get(entity, NO_QUOTAS))
        if bound is None:
            values.pop(key, None)
        else:
            values[key] = bound
        if values:
            self._client_quotas[entity] = values
        else:
            self._client_quotas.pop(entity, None)


# The images of ACLs and tokens have the fields of their records, in the same order.
_acl_fields = attrgetter(*AclBinding._fields)
_token_fields = attrgetter(*DelegationToken._fields)
