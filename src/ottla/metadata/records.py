"""The records of the metadata log, and their JSON format.

One record is one line of JSON: its type, the version of that type, then its fields in the order of their
declaration, without those that have their default. Ids are written as in Kafka (22 characters of base64).

    {"type":"TopicCreated","v":1,"name":"orders","topic_id":"2b1xZ0pTQbGk4m0aG3r9Xw"}

A field with a default may be added to a type at any time. A change that older code must not misread raises
the version instead; a reader rejects unknown types and versions, because skipping one would silently give it
another cluster state than the other brokers have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

from ottla.common.ids import parse_uuid, uuid_text
from ottla.security.quota_entities import QuotaEntity


class MetadataError(Exception):
    """The metadata cannot be read, or is inconsistent; the message says where and what to do."""


class ConfigResource(IntEnum):
    """The types of resources that have configs, with the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Endpoint(NamedTuple):
    """The address of a broker on one of its listeners."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class ClusterCreated:
    """The first record of every cluster."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class ControllerElected:
    """A broker became the controller."""

    node_id: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker joined, or restarted with another epoch or other addresses."""

    node_id: int
    broker_epoch: int
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    fenced: bool = False
    shutting_down: bool = False
    directory_id: str = ""
    other_directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """A registered broker is no longer alive (fenced), or is about to stop (shutting down)."""

    node_id: int
    broker_epoch: int
    fenced: bool
    shutting_down: bool


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    """A broker was removed from the cluster."""

    node_id: int


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic without partitions yet; they follow in the same append."""

    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic was deleted, with its partitions and configs."""

    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionCreated:
    """A topic has one more partition. A leader of -1 means none."""

    topic_id: UUID
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    lost_directories: tuple[tuple[int, str], ...] = ()
    failed: tuple[int, ...] = ()
    full: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """The complete new state of an existing partition."""

    topic_id: UUID
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    lost_directories: tuple[tuple[int, str], ...] = ()
    failed: tuple[int, ...] = ()
    full: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """A config was set, or (value None) reset to its default.

    The broker name "" stands for all brokers.
    """

    resource_type: int
    resource_name: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """Every producer id below this one has been allocated to some broker."""

    next_producer_id: int


@dataclass(frozen=True, slots=True)
class ClientQuotaChanged:
    """A quota of users, client ids or addresses was set, or (value None) removed."""

    entity: QuotaEntity
    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class AclCreated:
    """An ACL was added; the fields are those of `security.acls.AclBinding`."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class AclDeleted:
    """An ACL was removed."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class DelegationTokenSet:
    """A delegation token was created, or has another expiry; its HMAC is derived and never stored."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class DelegationTokenDeleted:
    """A delegation token was expired by its owner, or after its time."""

    token_id: str


@dataclass(frozen=True, slots=True)
class ScramCredentialChanged:
    """A user's SCRAM credential was set: salt and keys in base64, never a password."""

    user: str
    mechanism: str
    salt: str
    stored_key: str
    server_key: str
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramCredentialRemoved:
    """A user's SCRAM credential was removed."""

    user: str
    mechanism: str


@dataclass(frozen=True, slots=True)
class ScramSecretCreated:
    """The secret, in base64, that the salts of users who do not exist are derived from, on every broker."""

    secret: str


MetadataRecord = (
    ClusterCreated
    | ControllerElected
    | BrokerRegistered
    | BrokerChanged
    | BrokerUnregistered
    | TopicCreated
    | TopicDeleted
    | PartitionCreated
    | PartitionChanged
    | ConfigChanged
    | ProducerIdsAllocated
    | ClientQuotaChanged
    | AclCreated
    | AclDeleted
    | DelegationTokenSet
    | DelegationTokenDeleted
    | ScramCredentialChanged
    | ScramCredentialRemoved
    | ScramSecretCreated
)

VERSIONS: dict[type[MetadataRecord], int] = {
    ClusterCreated: 1,
    ControllerElected: 1,
    BrokerRegistered: 1,
    BrokerChanged: 1,
    BrokerUnregistered: 1,
    TopicCreated: 1,
    TopicDeleted: 1,
    PartitionCreated: 1,
    PartitionChanged: 1,
    ConfigChanged: 1,
    ProducerIdsAllocated: 1,
    ClientQuotaChanged: 1,
    AclCreated: 1,
    AclDeleted: 1,
    DelegationTokenSet: 1,
    DelegationTokenDeleted: 1,
    ScramCredentialChanged: 1,
    ScramCredentialRemoved: 1,
    ScramSecretCreated: 1,
}

_TYPES = {each.__name__: each for each in VERSIONS}
_FIELDS = {each: tuple((field.name, field.default) for field in fields(each)) for each in VERSIONS}
# JSON has neither ids nor tuples: these fields are turned back on reading.
_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "topic_id": parse_uuid,
    "replicas": tuple,
    "isr": tuple,
    "elr": tuple,
    "last_known_elr": tuple,
    "adding": tuple,
    "removing": tuple,
    "renewers": tuple,
    "failed": tuple,
    "full": tuple,
    "other_directories": tuple,
    "lost_directories": lambda pairs: tuple((node_id, directory_id) for node_id, directory_id in pairs),
    "entity": lambda parts: tuple((kind, name) for kind, name in parts),
    "endpoints": lambda endpoints: tuple(Endpoint(*each) for each in endpoints),
}
_to_json = json.JSONEncoder(separators=(",", ":"), default=uuid_text).encode


def encode_record(record: MetadataRecord) -> str:
    """Return the record as one line of JSON."""
    cls = type(record)
    line: dict[str, Any] = {"type": cls.__name__, "v": VERSIONS[cls]}
    for name, default in _FIELDS[cls]:
        if (value := getattr(record, name)) != default:
            line[name] = value
    return _to_json(line)


def decode_record(line: str) -> MetadataRecord:
    """Return the record that `encode_record` wrote."""
    try:
        values = json.loads(line)
        name, version = values.pop("type"), values.pop("v")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise MetadataError(f"not a metadata record: {line[:200]!r}") from error
    cls = _TYPES.get(name)
    if cls is None or version != VERSIONS[cls]:
        raise MetadataError(
            f"metadata record {name} version {version} is unknown to this Ottla; "
            "the metadata was written by a newer one, so start that version"
        )
    try:
        for key in values.keys() & _FROM_JSON.keys():
            values[key] = _FROM_JSON[key](values[key])
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise MetadataError(f"metadata record {name} does not fit its fields: {line[:200]!r}") from error


def encode_records(records: Iterable[MetadataRecord]) -> str:
    """Return the records as lines of JSON."""
    return "\n".join(map(encode_record, records))


def decode_records(text: str) -> Iterator[MetadataRecord]:
    """Yield the records that `encode_records` wrote."""
    return map(decode_record, text.split("\n") if text else ())
