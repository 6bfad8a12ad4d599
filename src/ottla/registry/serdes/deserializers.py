"""Deserializers for consumers: what a record's bytes mean, by the schema that they name.

Consumer(bootstrap, topics=["orders"], value_deserializer=AvroDeserializer("http://127.0.0.1:8081"))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ottla.registry.serdes.codecs import AVRO, JSON, PROTOBUF, Codec, CodecOptions, codec_of
from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.framing import VALUE, read_frame
from ottla.registry.serdes.registry_client import RegistryClient
from ottla.registry.serdes.rules import check_no_rules

MAX_CODECS = 1_000


class RegistryDeserializer:
    """Deserializes records of every format, each by its own schema; one object serves all topics.

    `reader_schema` (Avro) is the schema that records are read into, whatever they were written with. Protobuf
    gives messages: of `message_type`, or of a class made from the schema; dicts with `as_dict`.
    """

    schema_type: ClassVar[str | None] = None

    def __init__(
        self,
        registry: RegistryClient | str,
        *,
        reader_schema: str | None = None,
        message_type: Any = None,
        as_dict: bool = False,
        validate: bool = True,
        ignore_rules: bool = False,
    ) -> None:
        """Take a registry or its URL; see the class for the rest."""
        self.registry = RegistryClient(registry) if isinstance(registry, str) else registry
        self._options = CodecOptions(reader_schema, message_type, as_dict, validate)
        self._ignores_rules = ignore_rules
        self._codecs: dict[int | str, Codec] = {}

    def __call__(self, data: bytes) -> Any:
        """Return what a value means that names its schema in front."""
        return self.deserialize_record("", VALUE, data, ())

    def deserialize_record(
        self, topic: str, field: str, data: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> Any:
        """Return what the key or value of a record means; raise SerdeError, which says why not."""
        if data is None:
            return None
        frame = read_frame(field, data, headers)
        codec = self._codecs.get(frame.schema)
        return (codec or self._load(frame.schema)).decode(frame)

    def _load(self, name: int | str) -> Codec:
        is_protobuf = self.schema_type == PROTOBUF
        schema = self.registry.by_id(name, "serialized" if is_protobuf else None)
        if schema.schema_type == PROTOBUF and not is_protobuf:
            schema = self.registry.by_id(name, "serialized")
        if self.schema_type is not None and schema.schema_type != self.schema_type:
            raise SerdeError(
                f"its schema {name} is of type {schema.schema_type}, not {self.schema_type}: "
                "RegistryDeserializer reads all types"
            )
        if not self._ignores_rules:
            check_no_rules(schema.rule_set, "READ")
        codec = codec_of(self.registry, schema, self._options)
        if len(self._codecs) >= MAX_CODECS:
            self._codecs.clear()
        self._codecs[name] = codec
        return codec


class AvroDeserializer(RegistryDeserializer):
    """Reads Avro into dicts, and whatever else Avro has types for."""

    schema_type = AVRO


class JsonSchemaDeserializer(RegistryDeserializer):
    """Reads JSON, and checks it unless `validate` is False."""

    schema_type = JSON


class ProtobufDeserializer(RegistryDeserializer):
    """Reads messages of a class, or of one made from the schema; dicts with `as_dict`."""

    schema_type = PROTOBUF
