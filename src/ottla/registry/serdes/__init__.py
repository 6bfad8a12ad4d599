"""Serializers and deserializers with a schema registry, for `ottla.client`, the CLI and Spark.

registry_client   asks a registry over HTTP, and remembers
framing           where a record names its schema
strategies        which subject a schema belongs to
codecs            data into bytes and back: avro_codec, json_codec, protobuf_codec
avro_bounds       Avro data that is too large or too deep to decode
plain_json        data as JSON, for commands
rules             what data contracts demand beyond types
errors            what goes wrong
serializers, deserializers    what producers and consumers take
"""

from ottla.registry.serdes.deserializers import (
    AvroDeserializer,
    JsonSchemaDeserializer,
    ProtobufDeserializer,
    RegistryDeserializer,
)
from ottla.registry.serdes.errors import (
    NotFramed,
    RegistryRefused,
    RegistryUnavailable,
    SerdeError,
    UnknownSchema,
)
from ottla.registry.serdes.registry_client import RegistryClient, Schema, SchemaReference
from ottla.registry.serdes.rules import DeadLetters, RuleFailed
from ottla.registry.serdes.serializers import (
    AvroSerializer,
    JsonSchemaSerializer,
    ProtobufSerializer,
    RegistrySerializer,
)
from ottla.registry.serdes.strategies import record_name, topic_name, topic_record_name

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "DeadLetters",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "NotFramed",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegistryClient",
    "RegistryDeserializer",
    "RegistryRefused",
    "RegistrySerializer",
    "RegistryUnavailable",
    "RuleFailed",
    "Schema",
    "SchemaReference",
    "SerdeError",
    "UnknownSchema",
    "record_name",
    "topic_name",
    "topic_record_name",
]
