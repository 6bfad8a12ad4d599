"""Serializers for producers: the data in the format of a schema, with the schema's name.

    Producer(bootstrap, value_serializer=AvroSerializer("http://127.0.0.1:8081", schema))

Each finds the schema of a record in one of these ways, in this order: `use_schema_id`; the latest version of
the subject (`use_latest_version`, or no schema given); the given schema, registered (`auto_register`) or
looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ottla.registry.serdes.codecs import AVRO, JSON, PROTOBUF, Codec, CodecOptions, codec_of
from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.framing import HEADER, HEADERS, KEY, PREFIX, VALUE, guid_bytes, id_bytes
from ottla.registry.serdes.registry_client import Registered, RegistryClient, Schema, SchemaReference
from ottla.registry.serdes.rules import DeadLetters, RuleEngine
from ottla.registry.serdes.rules.encryption import Encryption
from ottla.registry.serdes.rules.engine import ENCODING, WRITE, Subject
from ottla.registry.serdes.rules.fields import Visit
from ottla.registry.serdes.strategies import SubjectName, strategy_of

MAX_CODECS = 1_000


class RegistrySerializer:
    """Serializes records with the schemas of a registry; one object serves keys and values of all topics.

    The first record of a topic waits for the registry. In an asyncio program, `prepare` does that beforehand,
    in a thread: `await asyncio.to_thread(serializer.prepare, topic)`.
    """

    schema_type: ClassVar[str | None] = None

    def __init__(
        self,
        registry: RegistryClient | str,
        schema: str | None = None,
        *,
        schema_type: str | None = None,
        references: Sequence[SchemaReference] = (),
        subject_name: str | SubjectName = "topic",
        auto_register: bool = True,
        normalize: bool = False,
        use_latest_version: bool = False,
        use_schema_id: int | None = None,
        framing: str = PREFIX,
        message_type: Any = None,
        validate: bool = True,
        ignore_rules: bool = False,
        dead_letters: DeadLetters | None = None,
        local_kms_secret: str | None = None,
    ) -> None:
        """Take a registry or its URL, and a schema as text; see the class for the rest."""
        if framing not in (PREFIX, HEADER):
            raise ValueError(f"framing is {PREFIX} or {HEADER}, not {framing!r}")
        self.registry = RegistryClient(registry) if isinstance(registry, str) else registry
        kind = self.schema_type or schema_type or AVRO
        self._schema = None if schema is None else Schema(schema, kind, tuple(references))
        self._subject_name = strategy_of(subject_name)
        self._auto_register = auto_register
        self._normalize = normalize
        self._uses_latest = use_latest_version
        self._schema_id = use_schema_id
        self._in_header = framing == HEADER
        encryption = Encryption(self.registry, local_kms_secret)
        self._rules = None if ignore_rules else RuleEngine(dead_letters, encryption)
        self._options = CodecOptions(message_type=message_type, validate=validate)
        self._codecs: dict[Any, Codec] = {}

    def __call__(self, data: Any) -> bytes | None:
        """Refuse: without the topic there is no subject. Clients of Ottla call `serialize_record`."""
        raise SerdeError(
            "call serialize_record(topic, 'value', data, headers): the schema depends on the topic"
        )

    def serialize_record(
        self, topic: str, field: str, data: Any, headers: list[tuple[str, bytes | None]]
    ) -> bytes | None:
        """Return the bytes of a record's key or value; with framing=header, a header is added."""
        return self._serialize(topic, field, data, headers, is_json=False)

    def serialize_json(
        self, topic: str, field: str, data: Any, headers: list[tuple[str, bytes | None]]
    ) -> bytes | None:
        """Do the same for data that was read from JSON, which has no bytes, decimals or times of its own."""
        return self._serialize(topic, field, data, headers, is_json=True)

    def _serialize(
        self, topic: str, field: str, data: Any, headers: list[tuple[str, bytes | None]], *, is_json: bool
    ) -> bytes | None:
        if data is None:
            return None
        try:
            codec, registered, subject = self._chosen(topic, field, data)
            data = codec.from_json(data) if is_json else data
            has_rules = registered.schema.rule_set is not None and self._rules is not None
            if has_rules:
                place = Subject(topic, field, subject, data, headers)
                data = self._apply_rules(registered.schema, place, codec, data)
            indexes, payload = codec.encode(data)
            if has_rules:
                payload = self._apply_encoding_rules(registered.schema, place, payload)
        except SerdeError as error:
            error.args = (f"the {field} for {topic} cannot be serialized: {error}", *error.args[1:])
            raise
        if not self._in_header:
            return id_bytes(registered.schema_id) + indexes + payload
        if registered.guid is None:
            raise SerdeError("the registry returns no GUIDs: use framing='prefix'")
        headers.append((HEADERS[field], guid_bytes(registered.guid) + indexes))
        return payload

    def _apply_rules(self, schema: Schema, place: Subject, codec: Codec, data: Any) -> Any:
        assert self._rules is not None
        return self._rules.run(
            WRITE, schema.rule_set, place, data, transform=codec.transform, tags=schema.tags
        )

    def _apply_encoding_rules(self, schema: Schema, place: Subject, payload: bytes) -> bytes:
        assert self._rules is not None
        return bytes(self._rules.run(WRITE, schema.rule_set, place, payload, phase=ENCODING))

    def prepare(self, topic: str, field: str = VALUE) -> None:
        """Register or fetch the schema for a topic, so that no record has to wait for it."""
        self._chosen(topic, field, None)

    def _chosen(self, topic: str, field: str, data: Any) -> tuple[Codec, Registered, str]:
        """Return how to write a record, the names of the schema, and its subject."""
        if self._schema_id is not None:
            schema = self.registry.by_id(self._schema_id)
            registered = Registered(self._schema_id, None, None, schema)
            if self._in_header:
                raise SerdeError("use_schema_id names no GUID: use framing='prefix'")
            codec = self._codec(schema)
            return codec, registered, self._subject_name(topic, field, codec.record_name)
        given = self._schema
        own = self._codec(given) if given is not None else None
        subject = self._subject_name(topic, field, own.record_name if own is not None else None)
        if given is None or own is None or self._uses_latest:
            latest = self.registry.latest(subject)
            self._check(latest.schema)
            return self._codec(latest.schema), latest, subject
        return own, self._registered(subject, given), subject

    def _registered(self, subject: str, schema: Schema) -> Registered:
        call = self.registry.register if self._auto_register else self.registry.lookup
        found = call(subject, schema, normalize=self._normalize)
        if found.guid is None and self._in_header:
            found = self.registry.lookup(subject, schema, normalize=self._normalize)
        return found

    def _check(self, schema: Schema) -> None:
        if self.schema_type is not None and schema.schema_type != self.schema_type:
            raise SerdeError(f"the schema is of type {schema.schema_type}, not {self.schema_type}")

    def _codec(self, schema: Schema) -> Codec:
        codec = self._codecs.get(schema)
        if codec is None:
            if len(self._codecs) >= MAX_CODECS:
                self._codecs.clear()
            codec = self._codecs[schema] = codec_of(self.registry, schema, self._options)
        return codec


class AvroSerializer(RegistrySerializer):
    """Writes dicts, and whatever else Avro has types for."""

    schema_type = AVRO


class JsonSchemaSerializer(RegistrySerializer):
    """Writes JSON, and checks it first unless `validate` is False."""

    schema_type = JSON


class ProtobufSerializer(RegistrySerializer):
    """Writes messages of generated classes; with a schema as text also dicts, as `message_type`."""

    schema_type = PROTOBUF

    def _chosen(self, topic: str, field: str, data: Any) -> tuple[Codec, Registered, str]:
        if self._schema is not None or self._schema_id is not None:
            return super()._chosen(topic, field, data)
        kind = self._options.message_type if data is None or isinstance(data, dict) else type(data)
        if kind is None or isinstance(kind, str) or not hasattr(kind, "DESCRIPTOR"):
            return super()._chosen(topic, field, data)
        subject = self._subject_name(topic, field, kind.DESCRIPTOR.full_name)
        codec = self._codecs.get(kind)
        if codec is None:
            codec = self._codecs[kind] = _MessageCodec(kind)
        if self._uses_latest:
            latest = self.registry.latest(subject)
            self._check(latest.schema)
            return codec, latest, subject
        return codec, self._registered(subject, self._schema_of(kind)), subject

    def _schema_of(self, kind: Any) -> Schema:
        from ottla.registry.serdes.protobuf_codec import schema_of

        def register(subject: str, schema: Schema) -> int:
            if self._auto_register:
                self.registry.register(subject, schema, normalize=self._normalize)
            version = self.registry.lookup(subject, schema, normalize=self._normalize).version
            assert version is not None
            return version

        return schema_of(kind, register)


class _MessageCodec:
    """Writes messages of one generated class, or dicts with their fields."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self.record_name: str | None = kind.DESCRIPTOR.full_name

    def encode(self, data: Any) -> tuple[bytes, bytes]:
        """Write a message."""
        from ottla.registry.serdes.protobuf_codec import message_bytes, message_from

        return message_bytes(message_from(self._kind, data))

    def from_json(self, data: Any) -> Any:
        """Return data as it is: a dict with the fields of a message."""
        return data

    def transform(self, data: Any, visit: Visit, by_path: Mapping[str, Iterable[str]]) -> Any:
        """Visit the fields of a message."""
        from ottla.registry.serdes.protobuf_codec import message_from
        from ottla.registry.serdes.rules.field_walks import walk_message

        return walk_message(message_from(self._kind, data), visit, by_path)

    def decode(self, frame: Any) -> Any:
        """Refuse: this codec only writes."""
        raise TypeError("a serializer cannot decode: use ProtobufDeserializer")


__all__ = [
    "KEY",
    "VALUE",
    "AvroSerializer",
    "JsonSchemaSerializer",
    "ProtobufSerializer",
    "RegistrySerializer",
]
