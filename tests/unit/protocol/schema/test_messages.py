"""The schema-driven codec against kio's own writer and reader, for every API and version."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from kio.serial import entity_reader
from tests.unit.protocol.entities import EVERY_API, as_class, kio_bytes, random_entity, versions_of

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import UnsupportedVersion
from ottla.protocol.schema.messages import (
    request_class,
    request_decoder,
    request_encoder,
    response_class,
    response_decoder,
    response_encoder,
)

PROMISED = {
    "API_VERSIONS": (0, 4), "METADATA": (0, 13), "PRODUCE": (3, 13), "FETCH": (4, 18),
    "LIST_OFFSETS": (1, 11), "FIND_COORDINATOR": (0, 6), "INIT_PRODUCER_ID": (0, 6),
    "OFFSET_COMMIT": (2, 10), "OFFSET_FETCH": (1, 10), "JOIN_GROUP": (0, 9), "HEARTBEAT": (0, 4),
    "LEAVE_GROUP": (0, 5), "SYNC_GROUP": (0, 5), "OFFSET_FOR_LEADER_EPOCH": (2, 4), "CREATE_TOPICS": (2, 7),
    "DELETE_TOPICS": (1, 6), "CREATE_PARTITIONS": (0, 3), "DELETE_RECORDS": (0, 2),
    "DESCRIBE_CONFIGS": (1, 4), "INCREMENTAL_ALTER_CONFIGS": (0, 1), "ALTER_CONFIGS": (0, 2),
    "DESCRIBE_GROUPS": (0, 6), "LIST_GROUPS": (0, 5), "DELETE_GROUPS": (0, 2), "OFFSET_DELETE": (0, 0),
    "DESCRIBE_CLUSTER": (0, 2), "DESCRIBE_TOPIC_PARTITIONS": (0, 0),
    "SASL_HANDSHAKE": (0, 1), "SASL_AUTHENTICATE": (0, 2),
    "ADD_PARTITIONS_TO_TXN": (0, 5), "ADD_OFFSETS_TO_TXN": (0, 4), "END_TXN": (0, 5),
    "TXN_OFFSET_COMMIT": (0, 5), "WRITE_TXN_MARKERS": (1, 2), "DESCRIBE_PRODUCERS": (0, 0),
    "DESCRIBE_TRANSACTIONS": (0, 0), "LIST_TRANSACTIONS": (0, 2),
    "DESCRIBE_ACLS": (1, 3), "CREATE_ACLS": (1, 3), "DELETE_ACLS": (1, 3),
    "DESCRIBE_USER_SCRAM_CREDENTIALS": (0, 0), "ALTER_USER_SCRAM_CREDENTIALS": (0, 0),
    "DESCRIBE_CLIENT_QUOTAS": (0, 1), "ALTER_CLIENT_QUOTAS": (0, 1), "ELECT_LEADERS": (0, 2),
    "ALTER_PARTITION_REASSIGNMENTS": (0, 1), "LIST_PARTITION_REASSIGNMENTS": (0, 0),
    "DESCRIBE_LOG_DIRS": (1, 5), "ALTER_REPLICA_LOG_DIRS": (1, 2), "UPDATE_FEATURES": (0, 2),
    "CONSUMER_GROUP_HEARTBEAT": (0, 1), "CONSUMER_GROUP_DESCRIBE": (0, 1),
    "SHARE_GROUP_HEARTBEAT": (1, 1), "SHARE_GROUP_DESCRIBE": (1, 1), "SHARE_FETCH": (1, 2),
    "SHARE_ACKNOWLEDGE": (1, 2), "DESCRIBE_SHARE_GROUP_OFFSETS": (0, 1), "ALTER_SHARE_GROUP_OFFSETS": (0, 0),
    "DELETE_SHARE_GROUP_OFFSETS": (0, 0), "GET_TELEMETRY_SUBSCRIPTIONS": (0, 0), "PUSH_TELEMETRY": (0, 0),
    "LIST_CONFIG_RESOURCES": (0, 1),
    "CREATE_DELEGATION_TOKEN": (1, 3), "RENEW_DELEGATION_TOKEN": (1, 2), "EXPIRE_DELEGATION_TOKEN": (1, 2),
    "DESCRIBE_DELEGATION_TOKEN": (1, 3),
}  # fmt: skip
"""The APIs and versions that the project promises to serve."""

api_keys = pytest.mark.parametrize("api_key", EVERY_API, ids=lambda key: ApiKey(key).name.lower())


def read_by_kio(cls: type[Any], raw: bytes) -> Any:
    entity, size = entity_reader(cls)(raw, 0)
    assert size == len(raw)
    return entity


def test_every_promised_version_is_among_those_that_are_tested() -> None:
    for name, (first, last) in PROMISED.items():
        assert set(range(first, last + 1)) <= set(versions_of(ApiKey[name])), name


@api_keys
def test_messages_are_written_and_read_as_kio_does(api_key: int) -> None:
    random = Random(api_key)
    for version in versions_of(api_key):
        for cls, decode, encode in (
            (request_class(api_key, version),
             request_decoder(api_key, version, version), request_encoder(api_key, version, version)),
            (response_class(api_key, version),
             response_decoder(api_key, version, version), response_encoder(api_key, version, version)),
        ):  # fmt: skip
            for _ in range(4):
                entity = random_entity(random, cls)
                raw = kio_bytes(entity)
                assert encode(entity) == raw
                assert decode(memoryview(b"head" + raw), 4) == entity
                assert read_by_kio(cls, raw) == entity


@api_keys
def test_messages_of_the_newest_class_are_written_in_every_version(api_key: int) -> None:
    random = Random(api_key)
    newest = versions_of(api_key)[-1]
    for version in versions_of(api_key):
        for class_of, encoder in ((request_class, request_encoder), (response_class, response_encoder)):
            entity = random_entity(random, class_of(api_key, newest))
            wire = class_of(api_key, version)
            assert encoder(api_key, version, newest)(entity) == kio_bytes(as_class(entity, wire))


@api_keys
def test_messages_of_every_version_are_read_into_the_newest_class(api_key: int) -> None:
    random = Random(api_key)
    newest = versions_of(api_key)[-1]
    for version in versions_of(api_key):
        for class_of, decoder in ((request_class, request_decoder), (response_class, response_decoder)):
            entity = random_entity(random, class_of(api_key, version))
            read = decoder(api_key, version, newest)(kio_bytes(entity), 0)
            assert read == as_class(entity, class_of(api_key, newest))


def test_fields_that_the_wire_lacks_get_the_schemas_defaults() -> None:
    metadata = request_decoder(ApiKey.METADATA, 0, 13)(b"\x00\x00\x00\x00", 0)
    assert metadata.topics == ()
    assert metadata.allow_auto_topic_creation is True
    assert metadata.include_topic_authorized_operations is False
    joined = request_encoder(ApiKey.JOIN_GROUP, 0, 0)
    request = random_entity(Random(1), request_class(ApiKey.JOIN_GROUP, 0))
    lifted = request_decoder(ApiKey.JOIN_GROUP, 0, 9)(joined(request), 0)
    assert (lifted.group_instance_id, lifted.reason) == (None, None)
    assert lifted.protocols == as_class(request, type(lifted)).protocols


def test_a_missing_version_or_api_is_unsupported() -> None:
    for api_key, version in ((ApiKey.PRODUCE, 2), (ApiKey.METADATA, 99), (4, 0), (500, 0)):
        with pytest.raises(UnsupportedVersion):
            request_decoder(api_key, version, version)
        with pytest.raises(UnsupportedVersion):
            response_encoder(api_key, version, version)


def test_decoders_are_compiled_once() -> None:
    assert request_decoder(12, 3, 4) is request_decoder(12, 3, 4)
    assert response_encoder(12, 3, 4) is response_encoder(12, 3, 4)


def test_null_where_the_message_has_no_place_for_it_is_a_mistake_of_the_caller() -> None:
    request = random_entity(Random(3), request_class(ApiKey.HEARTBEAT, 4))
    broken = type(request)(
        group_id=None, generation_id=1, member_id=request.member_id, group_instance_id=None
    )
    with pytest.raises(TypeError, match="group_id"):
        request_encoder(ApiKey.HEARTBEAT, 4, 4)(broken)
