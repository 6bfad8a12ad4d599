"""A cluster as it is declared in a file, and the changes that make a cluster so.

A `ClusterSpec` has topics, dynamic configs of brokers, ACLs and quotas. `read_spec` asks a cluster for its
own; `plan_changes` compares two of them, which is pure; `make_change` carries out one change. Everything is
asked for with Kafka's requests, so it works with Apache Kafka too. A section that is None is not managed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla.client.admin.acls import Acl, AclQuery, Acls
from ottla.client.admin.cluster_admin import ClusterAdmin
from ottla.client.admin.config_admin import ConfigSource
from ottla.client.admin.quotas import alter_quotas, list_quotas
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.topic_names import is_internal
from ottla.protocol.errors import KafkaError, SecurityDisabled
from ottla.security.quota_entities import ENTITY_TYPES, QuotaEntity, entity_text

ALL_BROKERS = "defaults"
"""The name of the configs that apply to every broker."""

Configs = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic; a count of None is left to the cluster."""

    partitions: int | None = None
    replication_factor: int | None = None
    configs: Configs = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What a file declares, or what a cluster has."""

    topics: Mapping[str, TopicSpec] | None = None
    brokers: Mapping[str, Configs] | None = None
    """Dynamic configs by node id, or of all brokers as `defaults`."""
    acls: tuple[Acl, ...] | None = None
    quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None
    silent: tuple[int, ...] = ()
    """Brokers that were not there to tell their dynamic configs; never in a file."""


async def read_spec(cluster: Cluster) -> ClusterSpec:
    """Ask a cluster for its topics, configs, ACLs and quotas; without the brokers' own topics."""
    admin = TopicAdmin(cluster)
    listed = await admin.list_topics()
    own = {name: each for name, each in listed.items() if not (each.is_internal or is_internal(name))}
    configs = await admin.topics_overrides(list(own))
    topics = {
        name: TopicSpec(len(each.partitions), each.replication_factor, configs.get(name, {}))
        for name, each in own.items()
    }
    info = await ClusterAdmin(cluster).describe()
    silent = {*info.brokers} - {*info.alive}
    brokers: dict[str, Configs] = {}
    for node_id in (None, *info.alive):
        wanted = ConfigSource.DYNAMIC_DEFAULT_BROKER if node_id is None else ConfigSource.DYNAMIC_BROKER
        try:
            entries = await admin.broker_configs(node_id)
        except ClientError:
            if node_id is None:
                raise
            silent.add(node_id)  # it has just died
            continue
        found = {each.name: each.value for each in entries if each.source is wanted}
        if visible := {key: value for key, value in found.items() if value is not None}:
            brokers[ALL_BROKERS if node_id is None else str(node_id)] = visible
    return ClusterSpec(
        topics, brokers, await _acls(cluster), await _quotas(cluster), silent=tuple(sorted(silent))
    )


async def _acls(cluster: Cluster) -> tuple[Acl, ...] | None:
    try:
        return tuple(sorted(await Acls(cluster).describe(), key=acl_text))
    except SecurityDisabled:
        return None


async def _quotas(cluster: Cluster) -> dict[QuotaEntity, Mapping[str, float]]:
    found = await list_quotas(cluster, {}, (), strict=False)
    return {quota_entity(each.entity): each.quotas for each in found}


def quota_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity with these names by type, in the fixed order of the types."""
    return tuple((kind, names[kind]) for kind in ENTITY_TYPES if kind in names)


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A topic that the cluster does not have."""

    name: str
    topic: TopicSpec


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """A topic, with its records, that the file does not have."""

    name: str


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """A topic that has too few partitions."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class ChangeConfigs:
    """Configs of a topic or (`is_broker`) of a broker: (key, before, after); None is the default."""

    name: str
    values: tuple[tuple[str, str | None, str | None], ...]
    is_broker: bool = False


@dataclass(frozen=True, slots=True)
class ChangeQuotas:
    """Quotas of an entity: (key, before, after); None is no quota."""

    entity: QuotaEntity
    values: tuple[tuple[str, float | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class CreateAcl:
    """An ACL that the cluster does not have."""

    acl: Acl


@dataclass(frozen=True, slots=True)
class DeleteAcl:
    """An ACL that the file does not have."""

    acl: Acl


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    """A difference that cannot be removed this way."""

    what: str
    hint: str


Change = CreateTopic | DeleteTopic | AddPartitions | ChangeConfigs | ChangeQuotas | CreateAcl | DeleteAcl


@dataclass(frozen=True, slots=True)
class SpecPlan:
    """The changes in the order in which they are made, what is impossible, and what is left alone."""

    changes: tuple[Change, ...]
    impossible: tuple[UnsupportedChange, ...]
    unmanaged: tuple[Change, ...]
    """What `prune` would remove."""


def plan_changes(wanted: ClusterSpec, found: ClusterSpec, *, prune: bool = False) -> SpecPlan:
    """Return what makes a cluster of `found` one of `wanted`; only `prune` removes something."""
    added, removed = tuple(_added(wanted, found)), tuple(_removed(wanted, found))
    impossible = tuple(_impossible(wanted, found))
    return SpecPlan((*added, *removed), impossible, ()) if prune else SpecPlan(added, impossible, removed)


def _impossible(wanted: ClusterSpec, found: ClusterSpec) -> Iterator[UnsupportedChange]:
    for name, topic in (wanted.topics or {}).items():
        has = (found.topics or {}).get(name)
        if has is None:
            continue
        if topic.partitions is not None and topic.partitions < (has.partitions or 0):
            yield UnsupportedChange(
                f"topic {name}: {has.partitions} partitions cannot become {topic.partitions}",
                f"write partitions: {has.partitions}, or delete the topic and its records first",
            )
        factor = topic.replication_factor
        if factor is not None and factor != has.replication_factor:
            yield UnsupportedChange(
                f"topic {name}: replication factor {has.replication_factor} is not {factor}",
                f"move its replicas first:  ottla cluster reassign {name} -r {factor}",
            )
    if wanted.acls and found.acls is None:
        yield UnsupportedChange(
            "acls: the cluster has no authorizer",
            "set authorizer.class.name on the brokers, or leave acls out",
        )


def _added(wanted: ClusterSpec, found: ClusterSpec) -> Iterator[Change]:
    for name, configs in (wanted.brokers or {}).items():
        if values := _set(configs, (found.brokers or {}).get(name, {})):
            yield ChangeConfigs(name, values, is_broker=True)
    for name, topic in (wanted.topics or {}).items():
        has = (found.topics or {}).get(name)
        if has is None:
            yield CreateTopic(name, topic)
            continue
        if topic.partitions is not None and topic.partitions > (has.partitions or 0):
            yield AddPartitions(name, has.partitions or 0, topic.partitions)
        if values := _set(topic.configs, has.configs):
            yield ChangeConfigs(name, values)
    for entity, quotas in (wanted.quotas or {}).items():
        before = (found.quotas or {}).get(entity, {})
        changed = tuple((key, before.get(key), to) for key, to in quotas.items() if before.get(key) != to)
        if changed:
            yield ChangeQuotas(entity, changed)
    if found.acls is not None:
        yield from (CreateAcl(each) for each in wanted.acls or () if each not in found.acls)


def _removed(wanted: ClusterSpec, found: ClusterSpec) -> Iterator[Change]:
    if wanted.acls is not None:
        yield from (DeleteAcl(each) for each in found.acls or () if each not in wanted.acls)
    if wanted.quotas is not None:
        for entity, quotas in (found.quotas or {}).items():
            kept = wanted.quotas.get(entity, {})
            if gone := tuple((key, value, None) for key, value in quotas.items() if key not in kept):
                yield ChangeQuotas(entity, gone)
    if wanted.brokers is not None:
        for name, configs in (found.brokers or {}).items():
            if values := _unset(configs, wanted.brokers.get(name, {})):
                yield ChangeConfigs(name, values, is_broker=True)
    for name, has in (found.topics or {}).items() if wanted.topics is not None else ():
        if name not in (wanted.topics or {}):
            yield DeleteTopic(name)
        elif values := _unset(has.configs, (wanted.topics or {})[name].configs):
            yield ChangeConfigs(name, values)


def _set(wanted: Configs, has: Configs) -> tuple[tuple[str, str | None, str | None], ...]:
    return tuple((key, has.get(key), to) for key, to in sorted(wanted.items()) if has.get(key) != to)


def _unset(has: Configs, wanted: Configs) -> tuple[tuple[str, str | None, str | None], ...]:
    return tuple((key, before, None) for key, before in sorted(has.items()) if key not in wanted)


async def make_change(cluster: Cluster, change: Change, *, validate_only: bool = False) -> None:
    """Carry out one change, or (`validate_only`) let the brokers check it where they can."""
    admin = TopicAdmin(cluster)
    match change:
        case CreateTopic(name, topic):
            await admin.create_topic(
                name,
                partitions=topic.partitions or -1,
                replication_factor=topic.replication_factor or -1,
                configs=topic.configs,
                validate_only=validate_only,
            )
        case AddPartitions(name, _, after):
            await admin.create_partitions(name, after, validate_only=validate_only)
        case ChangeConfigs(name, values, is_broker):
            set_to = {key: to for key, _, to in values if to is not None}
            unset = [key for key, _, to in values if to is None]
            if is_broker:
                node_id = None if name == ALL_BROKERS else int(name)
                await admin.alter_broker_configs(
                    node_id, set_to=set_to, unset=unset, validate_only=validate_only
                )
            else:
                await admin.alter_topic_configs(name, set_to=set_to, unset=unset, validate_only=validate_only)
        case ChangeQuotas(entity, quotas):
            bounds = {key: to for key, _, to in quotas if to is not None}
            gone = [key for key, _, to in quotas if to is None]
            await alter_quotas(cluster, dict(entity), bounds, gone, validate_only=validate_only)
        case CreateAcl(acl) if not validate_only:
            _raise_first(await Acls(cluster).create([acl]))
        case DeleteAcl(acl) if not validate_only:
            await Acls(cluster).delete(**_exactly(acl))
        case DeleteTopic(name) if not validate_only:
            await admin.delete_topic(name)


def _raise_first(errors: list[KafkaError | None]) -> None:
    for error in errors:
        if error is not None:
            raise error


def _exactly(acl: Acl) -> AclQuery:
    return AclQuery(
        principal=acl.principal,
        operation=acl.operation,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern=acl.pattern,
        host=acl.host,
        permission=acl.permission,
    )


def acl_text(acl: Acl) -> str:
    """Return an ACL as one phrase."""
    name = f"{acl.resource_name}*" if acl.pattern == "prefixed" else acl.resource_name
    return f"{acl.principal} {acl.permission} {acl.operation} {acl.resource_type} {name} from {acl.host}"


def describe_change(change: Change) -> list[str]:
    """Return a change as lines of a diff: what is added (+), changed (~) or removed (-)."""
    match change:
        case CreateTopic(name, topic):
            partitions = "default" if topic.partitions is None else topic.partitions
            factor = "default" if topic.replication_factor is None else topic.replication_factor
            head = f"+ topic {name}: partitions {partitions}, replication factor {factor}"
            return [head, *(f"    + {key} = {value}" for key, value in sorted(topic.configs.items()))]
        case DeleteTopic(name):
            return [f"- topic {name}, with all its records"]
        case AddPartitions(name, before, after):
            return [f"~ topic {name}: partitions {before} -> {after}"]
        case ChangeConfigs(name, values, is_broker):
            return [f"~ {'broker' if is_broker else 'topic'} {name}", *map(_value_text, values)]
        case ChangeQuotas(entity, quotas):
            return [f"~ quota of {entity_text(entity)}", *map(_value_text, quotas)]
        case CreateAcl(acl):
            return [f"+ acl {acl_text(acl)}"]
        case DeleteAcl(acl):
            return [f"- acl {acl_text(acl)}"]


def _value_text(value: tuple[str, object, object]) -> str:
    key, before, after = value
    if before is None:
        return f"    + {key} = {_plain(after)}"
    if after is None:
        return f"    - {key} (is {_plain(before)})"
    return f"    ~ {key}: {_plain(before)} -> {_plain(after)}"


def _plain(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)
