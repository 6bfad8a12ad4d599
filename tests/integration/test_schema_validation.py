"""Topics that validate schemas: what brokers accept from confluent-kafka, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("httpx")

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import wrappers_pb2
from tests.integration.registry_stage import RunningRegistry

from ottla.client import Producer as OttlaProducer
from ottla.common.config.schema_keys import RECORD_NAME, TOPIC_RECORD_NAME
from ottla.protocol.errors import InvalidRecord
from ottla.testing.broker_process import free_port
from ottla.testing.local_broker import OttlaBroker

USER = json.dumps(
    {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
)
BOTH = {"confluent.key.schema.validation": "true", "confluent.value.schema.validation": "true"}
VALUES = {"confluent.value.schema.validation": "true"}
STRATEGY = "confluent.value.subject.name.strategy"


class Stage:
    """A broker that knows a registry, with that registry."""

    def __init__(self, broker: OttlaBroker, registry: RunningRegistry) -> None:
        self.broker, self.registry = broker, registry
        self.client = SchemaRegistryClient({"url": registry.url})
        self.bootstrap = broker.bootstrap_servers

    def topic(self, name: str, configs: dict[str, str]) -> str:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for each in admin.create_topics([NewTopic(name, 1, 1, config=configs)]).values():
            each.result()
        return name

    def serialized(self, topic: str, data: Any, **options: Any) -> bytes:
        conf = {name.replace("_", "."): value for name, value in options.items()}
        serializer = AvroSerializer(self.client, USER, conf=conf or None)
        return bytes(serializer(data, SerializationContext(topic, MessageField.VALUE)))

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, **more: Any) -> Any:
        """Return the error that the producer is told of; None if the record is accepted."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "delivery.timeout.ms": 20_000})
        told: list[Any] = []
        producer.produce(topic, value, key, on_delivery=lambda error, _: told.append(error), **more)
        producer.flush(30)
        return told[0]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    port = free_port()
    settings = {"confluent.schema.registry.url": f"http://127.0.0.1:{port}"}
    with OttlaBroker(settings=settings) as broker:
        stage = Stage(broker, RunningRegistry(broker.bootstrap_servers, port=port).__enter__())
        yield stage
        stage.registry.__exit__(None, None, None)


def refusal(error: Any) -> bool:
    return error is not None and error.code() == KafkaError.INVALID_RECORD


def test_a_registered_schema_is_accepted_and_nothing_else(stage: Stage) -> None:
    topic = stage.topic("values", VALUES)
    good = stage.serialized(topic, {"name": "x"})
    assert stage.send(topic, good) is None
    assert stage.send(topic, None, b"a tombstone") is None
    assert refusal(stage.send(topic, b"no frame"))
    assert refusal(stage.send(topic, b"\0\0\0\xff\xff" + good[5:]))
    other = stage.topic("others", VALUES)
    assert refusal(stage.send(other, good)), "the schema is registered for another subject"
    assert stage.send(other, stage.serialized(other, {"name": "y"})) is None, "known as soon as registered"


def test_the_error_names_the_records(stage: Stage) -> None:
    topic = stage.topic("named", VALUES)
    good = stage.serialized(topic, {"name": "x"})
    with OttlaProducer(stage.bootstrap, linger_ms=10_000, compression_type="gzip") as producer:
        sent = [producer.send(topic, value) for value in (good, b"bad", good, b"\0\0\1\0\0")]
        with suppress(InvalidRecord):
            producer.flush()
        error = sent[0].exception()
    assert isinstance(error, InvalidRecord)
    assert list(error.record_errors) == [
        (1, "its value does not name a schema"),
        (3, "its value names a schema that is not registered: id 65536"),
    ]


def test_keys_and_guids_in_headers(stage: Stage) -> None:
    topic = stage.topic("keys", BOTH)
    headers: list[tuple[str, bytes]] = []
    serializer = AvroSerializer(
        stage.client, USER, conf={"schema.id.serializer": header_schema_id_serializer}
    )
    for field in (MessageField.KEY, MessageField.VALUE):
        data = serializer({"name": "x"}, SerializationContext(topic, field, headers))
    assert stage.send(topic, data, data, headers=headers) is None
    assert refusal(stage.send(topic, data, data, headers=headers[:1]))
    assert refusal(stage.send(topic, data, data, headers=[(headers[0][0], b"\1" + bytes(16)), headers[1]]))


def test_subjects_are_named_after_records(stage: Stage) -> None:
    topic = stage.topic("record", {**VALUES, STRATEGY: RECORD_NAME})
    assert refusal(stage.send(topic, stage.serialized(topic, {"name": "x"}))), "registered as record-value"

    def by_name(context: Any, name: str, *_: Any) -> str:
        return name

    def by_both(context: Any, name: str, *_: Any) -> str:
        return f"{context.topic}-{name}"

    good = stage.serialized(topic, {"name": "x"}, subject_name_strategy=by_name)
    assert stage.send(topic, good) is None
    both = stage.topic("both", {**VALUES, STRATEGY: TOPIC_RECORD_NAME})
    assert refusal(stage.send(both, good))
    message = wrappers_pb2.DoubleValue(value=1.5)
    conf = {"subject.name.strategy": by_both, "use.deprecated.format": False, "skip.known.types": True}
    serializer = ProtobufSerializer(wrappers_pb2.DoubleValue, stage.client, conf=conf)
    proto = serializer(message, SerializationContext(both, MessageField.VALUE))
    assert stage.send(both, proto) is None
    assert refusal(stage.send(both, proto[:5] + b"\2\4" + proto[6:])), "another message of that file"


def test_values_must_decode_if_the_topic_wants_it(stage: Stage) -> None:
    topic = stage.topic("decoded", {**VALUES, "ottla.value.schema.decoding": "true"})
    good = stage.serialized(topic, {"name": "x"})
    assert stage.send(topic, good) is None
    assert refusal(stage.send(topic, good[:-1]))
    assert refusal(stage.send(topic, good + b"!"))


def test_without_a_registry_producers_try_again(stage: Stage) -> None:
    topic = stage.topic("away", VALUES)
    known = stage.serialized(topic, {"name": "x"})
    assert stage.send(topic, known) is None
    unknown = b"\0\0\0\0\x63x"
    producer = Producer({"bootstrap.servers": stage.bootstrap, "delivery.timeout.ms": 60_000})
    told: list[Any] = []
    port = int(stage.registry.url.rpartition(":")[2])
    stage.registry.__exit__(None, None, None)
    producer.produce(topic, known, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(30) == 0
    assert told == [None], "what is known needs no registry"
    producer.produce(topic, unknown, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(1) == 1, "it waits for the registry"
    stage.registry = RunningRegistry(stage.bootstrap, port=port)
    stage.registry.__enter__()
    producer.flush(30)
    assert refusal(told[1])


def test_a_topic_cannot_validate_without_a_registry() -> None:
    with OttlaBroker() as broker, pytest.raises(Exception, match=r"confluent\.schema\.registry\.url"):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for each in admin.create_topics([NewTopic("t", 1, 1, config=VALUES)]).values():
            each.result()
