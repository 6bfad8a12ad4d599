"""Our serdes against our registry, and against confluent-kafka's, in both directions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("httpx")

from confluent_kafka.schema_registry import (
    Schema as TheirSchema,
)
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
)
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.serialization import SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tests.integration.registry_stage import RunningRegistry

from ottla.client import Consumer, DeserializationFailed, Producer, TopicPartition
from ottla.registry.serdes import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryClient,
    RegistryDeserializer,
    RegistryRefused,
    RegistrySerializer,
    RegistryUnavailable,
    SchemaReference,
    SerdeError,
    UnknownSchema,
)
from ottla.testing.local_broker import OttlaBroker

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]})
USER_2 = json.dumps(
    {
        "type": "record",
        "name": "User",
        "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int", "default": 7}],
    }
)
PERSON = json.dumps(
    {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
)
ADA = {"name": "Ada Lovelace"}


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


@pytest.fixture(scope="module")
def url(broker: OttlaBroker) -> Iterator[str]:
    with RunningRegistry(broker.bootstrap_servers) as running:
        yield running.url


@pytest.fixture(scope="module")
def messages() -> tuple[Any, Any]:
    """Return two generated classes: a message, and one nested in a second message of the file."""
    proto = descriptor_pb2.FileDescriptorProto(name="serdes/lab.proto", package="serdeslab", syntax="proto3")
    proto.dependency.append("google/protobuf/timestamp.proto")
    first = proto.message_type.add(name="Measure")
    field = first.field.add(name="value", number=1, json_name="value", type=5, label=1)
    first.field.add(
        name="taken", number=2, json_name="taken", type=11, label=1, type_name=".google.protobuf.Timestamp"
    )
    inner = proto.message_type.add(name="Outer").nested_type.add(name="Inner")
    inner.field.add().CopyFrom(field)
    from google.protobuf import timestamp_pb2  # noqa: F401

    pool = descriptor_pool.Default()
    pool.AddSerializedFile(proto.SerializeToString())
    found = [pool.FindMessageTypeByName(f"serdeslab.{name}") for name in ("Measure", "Outer.Inner")]
    first_class, second_class = map(message_factory.GetMessageClass, found)
    return first_class, second_class


def ours(kind: str, url: str, message: Any, **options: Any) -> tuple[Any, Any]:
    if kind == "avro":
        return AvroSerializer(url, USER, **options), AvroDeserializer(url)
    if kind == "json":
        return JsonSchemaSerializer(url, PERSON, **options), JsonSchemaDeserializer(url)
    return ProtobufSerializer(url, **options), ProtobufDeserializer(url, message_type=type(message))


def theirs(kind: str, url: str, message: Any, conf: dict[str, Any]) -> tuple[Any, Any]:
    client = SchemaRegistryClient({"url": url})
    if kind == "avro":
        return their_avro.AvroSerializer(client, USER, conf=conf), their_avro.AvroDeserializer(client)
    if kind == "json":
        return (
            their_json.JSONSerializer(PERSON, client, conf=conf),
            their_json.JSONDeserializer(PERSON, schema_registry_client=client),
        )
    old = {"use.deprecated.format": False}
    return (
        their_protobuf.ProtobufSerializer(type(message), client, {**old, **conf}),
        their_protobuf.ProtobufDeserializer(type(message), old, client),
    )


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("framing", ["prefix", "header"])
@pytest.mark.parametrize("kind", ["avro", "json", "protobuf", "nested"])
def test_both_read_what_the_other_writes(
    url: str, messages: tuple[Any, Any], kind: str, framing: str, field: str
) -> None:
    topic = f"both-{kind}-{framing}"
    data: Any = ADA if kind in ("avro", "json") else messages[kind == "nested"](value=1815)
    conf = {"schema.id.serializer": header_schema_id_serializer} if framing == "header" else {}
    write, read = ours(kind, url, data, framing=framing)
    their_write, their_read = theirs(kind, url, data, conf)
    context = SerializationContext(topic, field, [])
    written = their_write(data, context)
    assert read.deserialize_record(topic, field, written, context.headers) == data
    headers: list[Any] = []
    assert write.serialize_record(topic, field, data, headers) == written
    assert headers == context.headers
    assert their_read(written, SerializationContext(topic, field, headers)) == data
    anything = RegistryDeserializer(url, as_dict=True).deserialize_record(topic, field, written, headers)
    assert anything.get("value", 1815) == 1815


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_producers_and_consumers_take_them_for_keys_and_values(
    broker: OttlaBroker, url: str, framing: str
) -> None:
    topic = f"client-{framing}"
    with Producer(
        broker.bootstrap_servers,
        key_serializer=JsonSchemaSerializer(url, PERSON, framing=framing),
        value_serializer=AvroSerializer(url, USER, framing=framing),
    ) as producer:
        producer.send(topic, ADA, key=ADA, headers=[("mine", b"1")]).result(20)
        producer.send(topic, None, key=ADA).result(20)
    with Consumer(
        broker.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=RegistryDeserializer(url),
        value_deserializer=AvroDeserializer(url, reader_schema=USER_2),
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = [consumer.getone(timeout_ms=20_000) for _ in range(2)]
    assert [(each.key, each.value) for each in found] == [(ADA, {**ADA, "age": 7}), (ADA, None)]
    assert found[0].headers[0] == ("mine", b"1")
    assert len(found[0].headers) == (3 if framing == "header" else 1)


def test_a_record_that_cannot_be_read_is_named_with_the_reason(broker: OttlaBroker, url: str) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("unreadable", b"\0\x7f\xff\xff\xffx").result(20)
    with (
        Consumer(
            broker.bootstrap_servers,
            auto_offset_reset="earliest",
            value_deserializer=RegistryDeserializer(url),
        ) as consumer,
        pytest.raises(
            DeserializationFailed, match=r"offset 0 of unreadable-0 .*no schema with the id 214748"
        ),
    ):
        consumer.assign([TopicPartition("unreadable", 0)])
        consumer.getone(timeout_ms=20_000)


def test_schemas_are_chosen_as_configured(url: str) -> None:
    registry = RegistryClient(url)
    with pytest.raises(RegistryRefused, match="register a schema for it first"):
        AvroSerializer(registry, USER, auto_register=False).serialize_record("chosen", "value", ADA, [])
    AvroSerializer(registry, USER).prepare("chosen")
    first = AvroSerializer(registry, USER, auto_register=False).serialize_record("chosen", "value", ADA, [])
    AvroSerializer(registry, USER_2).prepare("chosen")
    latest = RegistrySerializer(RegistryClient(url)).serialize_record(
        "chosen", "value", {**ADA, "age": 3}, []
    )
    assert first is not None
    assert latest is not None
    assert latest[:5] != first[:5]
    schema_id = int.from_bytes(first[1:5], "big")
    by_id = RegistrySerializer(registry, use_schema_id=schema_id).serialize_record("x", "value", ADA, [])
    assert by_id == first
    AvroSerializer(registry, USER, subject_name="record").prepare("chosen")
    AvroSerializer(registry, USER, subject_name="topic-record").prepare("chosen")
    subjects = SchemaRegistryClient({"url": url}).get_subjects()
    assert {"chosen-value", "User", "chosen-User"} <= set(subjects)
    context = SerializationContext("chosen", "value", [])
    client = SchemaRegistryClient({"url": url})
    conf = {"subject.name.strategy": record_subject_name_strategy}
    assert their_avro.AvroSerializer(client, USER, conf=conf)(ADA, context) == first


def test_references_are_followed_in_every_format(url: str) -> None:
    client = SchemaRegistryClient({"url": url})
    client.register_schema("ref-user", TheirSchema(USER, "AVRO"))
    client.register_schema("ref-person", TheirSchema(PERSON, "JSON"))
    part = 'syntax = "proto3"; package ref; message Part { int32 size = 1; }'
    client.register_schema("ref-part", TheirSchema(part, "PROTOBUF"))
    team = json.dumps({"type": "record", "name": "Team", "fields": [{"name": "head", "type": "User"}]})
    team_json = json.dumps({"type": "object", "properties": {"head": {"$ref": "person.json"}}})
    whole = (
        'syntax = "proto3"; package ref; import "part.proto"; import "google/protobuf/timestamp.proto"; '
        "message Whole { Part head = 1; google.protobuf.Timestamp at = 2; map<string, int32> n = 3; }"
    )
    for kind, text, name, subject, data in (
        ("AVRO", team, "User", "ref-user", {"head": ADA}),
        ("JSON", team_json, "person.json", "ref-person", {"head": ADA}),
        ("PROTOBUF", whole, "part.proto", "ref-part", {"head": {"size": 4}, "at": None, "n": {"a": 1}}),
    ):
        write = RegistrySerializer(
            url, text, schema_type=kind, references=[SchemaReference(name, subject, 1)]
        )
        written = write.serialize_record(f"ref-{kind}", "value", data, [])
        assert written is not None
        assert RegistryDeserializer(url, as_dict=True)(written) == data
    with pytest.raises(SerdeError, match="required property"):
        JsonSchemaSerializer(
            url, team_json, references=[SchemaReference("person.json", "ref-person", 1)]
        ).serialize_record("ref-JSON", "value", {"head": {}}, [])


def test_what_is_wrong_is_said(url: str) -> None:
    with pytest.raises(
        SerdeError, match="the value for t cannot be serialized: it does not fit the schema User"
    ):
        AvroSerializer(url, USER).serialize_record("t", "value", {"name": 3}, [])
    with pytest.raises(SerdeError, match="does not start with byte 0"):
        AvroDeserializer(url)(b"plain")
    with pytest.raises(UnknownSchema):
        AvroDeserializer(url)(b"\0\x7f\xff\xff\xffx")
    written = JsonSchemaSerializer(url, PERSON).serialize_record("wrong", "value", ADA, [])
    assert written is not None
    with pytest.raises(SerdeError, match="of type JSON, not AVRO"):
        AvroDeserializer(url)(written)
    with pytest.raises(RegistryUnavailable, match="ottla registry serve"):
        AvroDeserializer("http://127.0.0.1:1")(b"\0\0\0\0\1x")
    rule = {"name": "hide", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD", "tags": ["PII"]}
    body = {"schema": USER, "ruleSet": {"domainRules": [rule]}}
    RegistryClient(url)._ask("POST", "/subjects/ruled-value/versions", body)
    with pytest.raises(SerdeError, match="the rule hide"):
        RegistrySerializer(url).serialize_record("ruled", "value", ADA, [])


def test_another_registry_is_asked_if_the_first_does_not_answer(url: str) -> None:
    registry = RegistryClient(f"http://127.0.0.1:1,{url}")
    AvroSerializer(registry, USER).prepare("second")
    assert registry.urls[0] == url
