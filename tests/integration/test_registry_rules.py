"""Rules of data contracts, in our serdes and in confluent-kafka's: both do the same with them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("celpy")
pytest.importorskip("jsonata")

from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirReader
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirWriter
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from confluent_kafka.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from tests.integration.registry_stage import RunningRegistry

from ottla.client import Consumer, Producer
from ottla.registry.serdes import (
    AvroDeserializer,
    AvroSerializer,
    DeadLetters,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RuleFailed,
)
from ottla.testing.local_broker import OttlaBroker

USER = json.dumps(
    {
        "type": "record",
        "name": "User",
        "namespace": "shop",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "ssn", "type": ["null", "string"], "confluent:tags": ["PII"]},
            {"name": "age", "type": "int"},
        ],
    }
)
PERSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "ssn": {"oneOf": [{"type": "null"}, {"type": "string"}], "confluent:tags": ["PII"]},
            "age": {"type": "integer"},
        },
    }
)
PROTO = """
syntax = "proto3";
import "confluent/meta.proto";
message User {
  string name = 1;
  string ssn = 2 [(confluent.field_meta).tags = "PII"];
  int32 age = 3;
}
"""
ADA = {"name": "Ada", "ssn": "123-45", "age": 36}
_numbers = itertools.count()


class Stage:
    """A registry, and the same schema with rules for both kinds of clients."""

    def __init__(self, broker: OttlaBroker, registry: RunningRegistry) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.url = registry.url
        self.client = SchemaRegistryClient({"url": registry.url})

    def topic(
        self, *rules: Rule, text: str = USER, kind: str = "AVRO", tags: dict[str, Any] | None = None
    ) -> str:
        """Register a schema with rules for a new topic."""
        name = f"rules-{next(_numbers)}"
        metadata = None if tags is None else Metadata(MetadataTags(tags), None, None)
        rule_set = RuleSet([], list(rules))
        schema = Schema(text, kind, [], metadata, rule_set)
        self.client.register_schema(f"{name}-value", schema)
        return name

    def theirs(self, topic: str, data: Any, kind: str = "AVRO") -> bytes:
        conf = {"auto.register.schemas": False, "use.latest.version": True}
        context = SerializationContext(topic, MessageField.VALUE)
        if kind == "AVRO":
            return bytes(TheirWriter(self.client, None, conf=conf)(dict(data), context))
        return bytes(JSONSerializer(PERSON, self.client, conf=conf)(dict(data), context))

    def they_read(self, topic: str, data: bytes, kind: str = "AVRO", **conf: Any) -> Any:
        context = SerializationContext(topic, MessageField.VALUE)
        if kind == "AVRO":
            return TheirReader(SchemaRegistryClient({"url": self.url}), conf=conf)(data, context)
        return JSONDeserializer(None, schema_registry_client=self.client)(data, context)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    CelExecutor.register()
    CelFieldExecutor.register()
    JsonataExecutor.register()
    with OttlaBroker() as broker, RunningRegistry(broker.bootstrap_servers) as registry:
        yield Stage(broker, registry)


def rule(kind: RuleKind, mode: RuleMode, rule_type: str, expr: str, name: str = "r", **more: Any) -> Rule:
    given: dict[str, Any] = {"tags": None, "params": None, "on_success": None, "on_failure": None, **more}
    return Rule(
        name, None, kind, mode, rule_type, given["tags"], given["params"], expr,
        given["on_success"], given["on_failure"], False,
    )  # fmt: skip


def ours(stage: Stage, topic: str, data: Any, writer: type[Any] = AvroSerializer, **more: Any) -> bytes:
    found = writer(stage.url, use_latest_version=True, **more).serialize_record(topic, "value", data, [])
    assert isinstance(found, bytes)
    return found


def we_read(stage: Stage, topic: str, data: bytes, reader: type[Any] = AvroDeserializer, **more: Any) -> Any:
    return reader(stage.url, **more).deserialize_record(topic, "value", data, ())


CONDITIONS = [
    ("message.age > 18", True),
    ("message.age > 40", False),
    ("message.name.startsWith('B'); message.age > 40", True),
    ("has(message.name) && message.name.size() == 3", True),
    ("message.name == 'Ada' ? message.age == 36 : false", True),
    ("isEmail(message.name)", False),
    ("message.ssn.matches('[0-9]{3}-[0-9]+')", True),
]


@pytest.mark.parametrize(("expression", "holds"), CONDITIONS)
def test_a_condition_decides_the_same_for_both(stage: Stage, expression: str, holds: bool) -> None:
    topic = stage.topic(rule(RuleKind.CONDITION, RuleMode.WRITE, "CEL", expression))
    if holds:
        assert ours(stage, topic, ADA) == stage.theirs(topic, ADA)
        return
    with pytest.raises(SerializationError):
        stage.theirs(topic, ADA)
    with pytest.raises(RuleFailed, match="the rule r"):
        ours(stage, topic, ADA)


TRANSFORMS = [
    ("CEL_FIELD", "value + '!'", ["PII"]),
    ("CEL_FIELD", "typeName == 'STRING'; value + '-' + name", None),
    ("CEL_FIELD", "typeName == 'INT' && message.name == 'Ada'; value + 1", None),
    ("CEL_FIELD", "'PII' in tags; 'gone'", None),
    ("CEL_FIELD", "fullName == 'shop.User.name'; 'Bea'", None),
    ("CEL", "{'name': message.name + 'x', 'ssn': null, 'age': message.age * 2}", None),
    ("JSONATA", "$merge([$, {'name': name & '?'}])", None),
]


@pytest.mark.parametrize(("kind", "expression", "tags"), TRANSFORMS)
def test_a_transform_makes_the_same_bytes(
    stage: Stage, kind: str, expression: str, tags: list[str] | None
) -> None:
    transform = rule(RuleKind.TRANSFORM, RuleMode.WRITEREAD, kind, expression, tags=tags)
    topic = stage.topic(transform)
    written = ours(stage, topic, ADA)
    assert written == stage.theirs(topic, ADA)
    assert we_read(stage, topic, written) == stage.they_read(topic, written)
    assert ADA == {"name": "Ada", "ssn": "123-45", "age": 36}, "data of the user is not changed"


def test_json_and_protobuf_fields(stage: Stage) -> None:
    mask = rule(RuleKind.TRANSFORM, RuleMode.WRITE, "CEL_FIELD", "value + '*'", tags=["PII"])
    topic = stage.topic(mask, text=PERSON, kind="JSON")
    written = ours(stage, topic, ADA, JsonSchemaSerializer)
    assert json.loads(written[5:]) == json.loads(stage.theirs(topic, ADA, "JSON")[5:])
    assert we_read(stage, topic, written, JsonSchemaDeserializer)["ssn"] == "123-45*"
    topic = stage.topic(mask, text=PROTO, kind="PROTOBUF")
    written = ours(stage, topic, ADA, ProtobufSerializer)
    read = we_read(stage, topic, written, ProtobufDeserializer, as_dict=True)
    assert read == {"name": "Ada", "ssn": "123-45*", "age": 36}
    whole = rule(RuleKind.TRANSFORM, RuleMode.READ, "CEL", "{'name': 'B' + message.name, 'age': 1}")
    topic = stage.topic(whole, text=PROTO, kind="PROTOBUF")
    found = we_read(stage, topic, ours(stage, topic, ADA, ProtobufSerializer), ProtobufDeserializer)
    assert (found.name, found.age, found.ssn) == ("BAda", 1, "")


def test_tags_of_the_metadata_count(stage: Stage) -> None:
    mask = rule(RuleKind.TRANSFORM, RuleMode.WRITE, "CEL_FIELD", "value + '*'", tags=["SECRET"])
    topic = stage.topic(mask, tags={"**.name": ["SECRET"]})
    written = ours(stage, topic, ADA)
    assert written == stage.theirs(topic, ADA)
    assert we_read(stage, topic, written)["name"] == "Ada*"


def test_rules_of_the_reader_run_in_the_reverse_order(stage: Stage) -> None:
    names = [
        rule(RuleKind.TRANSFORM, RuleMode.WRITEREAD, "CEL_FIELD", f"name == 'name'; value + '{each}'", each)
        for each in ("a", "b")
    ]
    topic = stage.topic(*names)
    written = ours(stage, topic, ADA)
    assert we_read(stage, topic, written)["name"] == "Adaabba" == stage.they_read(topic, written)["name"]


def test_actions(stage: Stage) -> None:
    never = "message.age > 100"
    ignored = rule(RuleKind.CONDITION, RuleMode.WRITE, "CEL", never, on_failure="NONE")
    assert ours(stage, stage.topic(ignored), ADA)
    fails = rule(RuleKind.CONDITION, RuleMode.WRITE, "CEL", "true", on_success="ERROR")
    with pytest.raises(RuleFailed):
        ours(stage, stage.topic(fails), ADA)
    reading = rule(RuleKind.CONDITION, RuleMode.WRITEREAD, "CEL", never, on_failure="NONE,ERROR")
    topic = stage.topic(reading)
    written = ours(stage, topic, ADA)
    with pytest.raises(RuleFailed):
        we_read(stage, topic, written)
    assert we_read(stage, topic, written, ignore_rules=True) == ADA
    unknown = rule(RuleKind.TRANSFORM, RuleMode.WRITE, "HIDE", "x")
    with pytest.raises(RuleFailed, match="HIDE are not supported"):
        ours(stage, stage.topic(unknown), ADA)


def test_refused_records_become_dead_letters(stage: Stage) -> None:
    refuse = rule(
        RuleKind.CONDITION, RuleMode.WRITE, "CEL", "message.age > 100", "old", on_failure="DLQ",
        params=RuleParams({"dlq.topic": "dead"}),
    )  # fmt: skip
    topic = stage.topic(refuse)
    with Producer(stage.bootstrap) as producer:
        letters = DeadLetters(producer)
        with pytest.raises(RuleFailed):
            ours(stage, topic, ADA, dead_letters=letters)
    with Consumer(
        stage.bootstrap, topics="dead", group_id="letters", auto_offset_reset="earliest"
    ) as consumer:
        record = next(iter(consumer))
    headers = dict(record.headers)
    assert json.loads(record.value) == ADA
    assert headers["__rule.name"] == b"old"
    assert headers["__rule.topic"] == topic.encode()
    serializer = AvroSerializer(stage.url, use_latest_version=True)
    again = serializer.serialize_record(topic, "value", ADA, [("__rule.name", b"old")])
    assert again is not None, "what comes from the dead letters is not refused again"


def test_records_are_migrated_between_versions(stage: Stage) -> None:
    topic = f"rules-{next(_numbers)}"
    subject = f"{topic}-value"
    stage.client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    first = json.dumps({"type": "record", "name": "P", "fields": [{"name": "full", "type": "string"}]})
    second = json.dumps(
        {"type": "record", "name": "P", "fields": [{"name": n, "type": "string"} for n in ("one", "two")]}
    )
    old_id = stage.client.register_schema(subject, Schema(first, "AVRO"))
    written = ours(stage, topic, {"full": "Ada Byron"})
    up = rule(
        RuleKind.TRANSFORM, RuleMode.UPGRADE, "JSONATA",
        "$merge([$sift($, function($v, $k) {$k != 'full'}), "
        "{'one': $split(full, ' ')[0], 'two': $split(full, ' ')[1]}])", "up",
    )  # fmt: skip
    down = rule(RuleKind.TRANSFORM, RuleMode.DOWNGRADE, "JSONATA", "{'full': one & ' ' & two}", "down")
    new = Schema(second, "AVRO", [], None, RuleSet([up, down], []))
    new_id = stage.client.register_schema(subject, new)
    assert new_id != old_id
    read = we_read(stage, topic, written, use_latest_version=True)
    assert read == {"one": "Ada", "two": "Byron"}
    assert read == stage.they_read(topic, written, **{"use.latest.version": True})
    assert we_read(stage, topic, written) == {"full": "Ada Byron"}, "as it was written"
