"""confluent-kafka's registry clients and serializers, unmodified, against our registry and broker."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("httpx")

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.integration.registry_stage import RunningRegistry

from ottla.testing.local_broker import OttlaBroker

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]})
USER_2 = json.dumps(
    {
        "type": "record",
        "name": "User",
        "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int", "default": 0}],
    }
)
PERSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Person",
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }
)


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


@pytest.fixture
def client(registry: RunningRegistry) -> Any:
    return SchemaRegistryClient({"url": registry.url})


def test_the_client_registers_evolves_and_deletes(client: Any) -> None:
    first = client.register_schema("py-user", Schema(USER, "AVRO"))
    assert client.register_schema("py-user", Schema(USER, "AVRO")) == first
    second = client.register_schema("py-user", Schema(USER_2, "AVRO"))
    assert second == first + 1
    assert client.get_schema(first).schema_str == json.dumps(json.loads(USER), separators=(",", ":"))
    latest = client.get_latest_version("py-user")
    assert (latest.version, latest.schema_id) == (2, second)
    assert client.get_version("py-user", 1).schema_id == first
    assert client.lookup_schema("py-user", Schema(USER, "AVRO")).version == 1
    assert client.get_schema_by_guid(latest.guid).schema_str == latest.schema.schema_str
    assert "py-user" in client.get_subjects()
    assert client.get_versions("py-user") == [1, 2]
    assert client.test_compatibility("py-user", Schema(USER_2, "AVRO"))
    assert not client.test_compatibility("py-user", Schema('"int"', "AVRO"))
    assert client.set_compatibility("py-user", "FULL")["compatibility"] == "FULL"
    assert client.get_compatibility("py-user") == "FULL"
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("py-user", Schema('"int"', "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)
    assert client.delete_version("py-user", 1) == 1
    assert client.delete_subject("py-user") == [2]
    assert sorted(client.delete_subject("py-user", permanent=True)) == [1, 2]


def test_the_client_sets_config_contracts_and_references(client: Any) -> None:
    client.set_config("py-contract", ServerConfig(compatibility=ConfigCompatibilityLevel.FULL_TRANSITIVE))
    assert client.get_compatibility("py-contract") == "FULL_TRANSITIVE"
    rule = Rule(
        "check", None, RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None, "true", None, None, False
    )
    schema = Schema(
        USER,
        "AVRO",
        metadata=Metadata(None, MetadataProperties({"owner": "me"}), None),
        rule_set=RuleSet(None, [rule]),
    )
    registered = client.register_schema_full_response("py-contract", schema)
    stored = client.get_version("py-contract", 1)
    assert stored.schema.metadata.properties.properties == {"owner": "me"}
    assert [each.name for each in stored.schema.rule_set.domain_rules] == ["check"]
    assert stored.schema_id == registered.schema_id
    assert client.get_latest_with_metadata("py-contract", {"owner": "me"}).version == 1
    group = json.dumps({"type": "record", "name": "Group", "fields": [{"name": "head", "type": "User"}]})
    reference = SchemaReference("User", "py-contract", 1)
    found = client.register_schema_full_response("py-group", Schema(group, "AVRO", [reference]))
    assert client.get_schema(found.schema_id).references[0].subject == "py-contract"


async def test_the_asyncio_client_does_the_same(registry: RunningRegistry) -> None:
    client = AsyncSchemaRegistryClient({"url": registry.url})
    ids = await asyncio.gather(
        *(client.register_schema(f"async-{number}", Schema(USER, "AVRO")) for number in range(8))
    )
    assert len(set(ids)) == 1, "the same schema has the same id under every subject"
    assert (await client.get_latest_version("async-0")).version == 1
    assert await client.get_versions("async-7") == [1]


@functools.cache
def measure_class() -> Any:
    """Return the class of a message of our own, as protoc would make it."""
    proto = descriptor_pb2.FileDescriptorProto(name="measure.proto", package="lab", syntax="proto3")
    field = proto.message_type.add(name="Measure").field.add(name="value", number=1, json_name="value")
    field.type, field.label = field.TYPE_INT32, field.LABEL_OPTIONAL
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(proto.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("lab.Measure"))


@pytest.mark.parametrize("framing", ["prefix", "header"])
@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_records_travel_with_their_schemas(broker: OttlaBroker, client: Any, kind: str, framing: str) -> None:
    topic = f"serde-{kind}-{framing}"
    options: dict[str, Any] = {}
    if framing == "header":
        options["schema.id.serializer"] = header_schema_id_serializer
    value: Any = {"name": "Ada Lovelace"}
    if kind == "protobuf":
        value = measure_class()(value=1815)
        serializer: Any = ProtobufSerializer(type(value), client, {"use.deprecated.format": False, **options})
        deserializer: Any = ProtobufDeserializer(type(value), {"use.deprecated.format": False}, client)
    elif kind == "avro":
        serializer, deserializer = AvroSerializer(client, USER, conf=options), AvroDeserializer(client)
    else:
        serializer = JSONSerializer(PERSON, client, conf=options)
        deserializer = JSONDeserializer(PERSON, schema_registry_client=client)
    context = SerializationContext(topic, MessageField.VALUE, [])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, serializer(value, context), headers=context.headers)
    assert producer.flush(20) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        received = SerializationContext(topic, MessageField.VALUE, message.headers() or [])
        assert deserializer(message.value(), received) == value
        assert (message.value()[:1] == b"\x00") == (framing == "prefix")
    finally:
        consumer.close()
    assert client.get_latest_version(f"{topic}-value").version == 1
