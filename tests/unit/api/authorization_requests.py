"""Requests of every API that name one topic, one group and one transactional id, built from the schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import RequestHeader, encode_request_header
from ottla.protocol.principal_data import encode_principal
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.schema.messages import request_class, request_encoder

TOPIC, GROUP, TXN = "orders", "billing", "sink"
OTHER_USER = "bob"

_BATCH = encode_batch(
    [Record(0, 1_000, None, b"value", ())],
    producer_id=1,
    producer_epoch=0,
    base_sequence=0,
    transactional=True,
)

_K = ApiKey
BY_FIELD: dict[str, Any] = {
    "name": TOPIC,
    "topic": TOPIC,
    "topic_name": TOPIC,
    "topic_names": (TOPIC,),
    "subscribed_topic_names": (TOPIC,),
    "group_id": GROUP,
    "group_ids": (GROUP,),
    "groups_names": (GROUP,),
    "key": GROUP,
    "coordinator_keys": (GROUP,),
    "transactional_id": TXN,
    "transactional_ids": (TXN,),
    "v3_and_below_transactional_id": TXN,
    "member_id": "member",
    "protocol_type": "consumer",
    "partition_indexes": (0,),
    "partitions": None,
    "election_type": 0,
    "producer_id": 1,
    "producer_epoch": 0,
}
BY_API: dict[ApiKey, dict[str, Any]] = {
    _K.PRODUCE: {"acks": -1, "timeout": timedelta(seconds=1), "records": bytes(_BATCH)},
    _K.FETCH: {"replica_id": -1, "partition_max_bytes": 1000, "max_bytes": 1000, "forgotten_topics_data": ()},
    _K.METADATA: {"topic_id": None, "include_cluster_authorized_operations": True},
    _K.FIND_COORDINATOR: {"key_type": 0},
    _K.DESCRIBE_GROUPS: {"groups": (GROUP,)},
    _K.LIST_GROUPS: {"states_filter": (), "types_filter": ()},
    _K.CREATE_TOPICS: {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()},
    _K.DELETE_TOPICS: {"topic_id": None},
    _K.CREATE_PARTITIONS: {"count": 4, "assignments": None},
    _K.LIST_TRANSACTIONS: {"state_filters": (), "producer_id_filters": (), "transactional_id_pattern": None},
    _K.DESCRIBE_CONFIGS: {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None},
    _K.ALTER_CONFIGS: {"resource_type": 2, "resource_name": TOPIC, "configs": ()},
    _K.INCREMENTAL_ALTER_CONFIGS: {"resource_type": 2, "resource_name": TOPIC, "configs": ()},
    _K.LIST_CONFIG_RESOURCES: {"resource_types": ()},
    _K.CREATE_ACLS: {"resource_type": 2, "resource_name": "new", "principal": "User:x", "host": "*"},
    _K.CREATE_DELEGATION_TOKEN: {
        "owner_principal_type": "User",
        "owner_principal_name": OTHER_USER,
        "renewers": (),
    },
    _K.DESCRIBE_DELEGATION_TOKEN: {"owners": None},
    _K.UPDATE_FEATURES: {"feature": "group.version", "max_version_level": 1},
    _K.UNREGISTER_BROKER: {"broker_id": 7},
    _K.DESCRIBE_CLUSTER: {"endpoint_type": 1, "include_cluster_authorized_operations": True},
    _K.CONSUMER_GROUP_HEARTBEAT: {"member_epoch": 0, "group_id": "consumers", "topic_partitions": ()},
    _K.CONSUMER_GROUP_DESCRIBE: {"group_ids": ("consumers",)},
    _K.DESCRIBE_TOPIC_PARTITIONS: {"cursor": None, "response_partition_limit": 100},
    _K.WRITE_TXN_MARKERS: {"producer_id": 99},
    _K.ALTER_REPLICA_LOG_DIRS: {"path": "/nowhere"},
    _K.DELETE_ACLS: {"operation": 3, "permission_type": 3, "resource_name_filter": "nothing"},
    _K.DESCRIBE_ACLS: {"operation": 1, "permission_type": 1},
}


def build(key: ApiKey, version: int, **override: Any) -> Any:
    """Return a request of the API; `override` sets fields by name, at any depth."""
    known = {**BY_FIELD, **BY_API.get(key, {}), **override}
    if key is ApiKey.ENVELOPE:
        known |= _envelope()
    if key is ApiKey.INIT_PRODUCER_ID and "producer_id" not in override:
        known |= {"producer_id": -1, "producer_epoch": -1, "transaction_timeout": timedelta(seconds=60)}
    return _struct(request_class(key, version), known)


def _envelope() -> dict[str, Any]:
    inner = build(ApiKey.UNREGISTER_BROKER, 0)
    header = encode_request_header(RequestHeader(ApiKey.UNREGISTER_BROKER, 0, 1, "app"))
    return {
        "request_data": header + request_encoder(ApiKey.UNREGISTER_BROKER, 0, 0)(inner),
        "request_principal": encode_principal("User:root", is_token_authenticated=False),
        "client_host_address": bytes((10, 0, 0, 9)),
    }


def _struct(cls: type[Any], known: dict[str, Any]) -> Any:
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for each in fields(cls):
        if each.name.startswith("__"):
            continue
        values[each.name] = _value(each, hints[each.name], known)
    return cls(**values)


def _value(each: Any, hint: Any, known: dict[str, Any]) -> Any:
    value = known.get(each.name, MISSING)
    if value is not MISSING and value is not None:
        return value
    origin, arguments = get_origin(hint), get_args(hint)
    is_optional = origin in (Union, UnionType) and type(None) in arguments
    if each.name in known and is_optional and each.name != "partitions":
        return None
    if is_optional:
        hint = next(each for each in arguments if each is not type(None))
        origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return (_item(arguments[0], known),)
    if is_dataclass(hint):
        return _struct(hint, known)  # type: ignore[arg-type]
    if each.default is not MISSING:
        return each.default
    return None if is_optional else _blank(each.metadata["kafka_type"], known)


def _item(hint: Any, known: dict[str, Any]) -> Any:
    if is_dataclass(hint):
        return _struct(hint, known)  # type: ignore[arg-type]
    return "x" if _is_text(hint) else 0


def _is_text(hint: Any) -> bool:
    supertype = getattr(hint, "__supertype__", hint)
    return isinstance(supertype, type) and issubclass(supertype, str)


def _blank(kafka_type: str, known: dict[str, Any]) -> Any:
    blanks: dict[str, Callable[[], Any]] = {
        "string": lambda: "x",
        "bytes": lambda: b"",
        "records": lambda: known["records"],
        "bool": lambda: False,
        "uuid": lambda: UUID(int=1),
        "error_code": lambda: ErrorCode.none,
    }
    if kafka_type.startswith("timedelta"):
        return timedelta(seconds=10)
    return blanks.get(kafka_type, lambda: 0)()
