"""Deserializers for consumers: what a record's bytes mean, by the schema that they name.

Consumer(bootstrap, topics=["orders"], value_deserializer=AvroDeserializer("http://127.0.0.1:8081"))

With `use_latest_version`, records are read as the latest version of their subject: the migration rules of the
versions in between run first, then the rules of the latest version. Without it, those of the version that
wrote the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from ottla.registry.serdes.codecs import AVRO, JSON, PROTOBUF, Codec, CodecOptions, codec_of
from ottla.registry.serdes.errors import RegistryRefused, SerdeError
from ottla.registry.serdes.framing import VALUE, Frame, read_frame
from ottla.registry.serdes.registry_client import Registered, RegistryClient, Schema
from ottla.registry.serdes.rules import DeadLetters, RuleEngine
from ottla.registry.serdes.rules.encryption import Encryption
from ottla.registry.serdes.rules.engine import (
    DOWNGRADE,
    ENCODING,
    MIGRATION,
    READ,
    UPGRADE,
    Contract,
    Subject,
)
from ottla.registry.serdes.strategies import SubjectName, strategy_of

MAX_VERSIONS = 1_000
DELETED = (404, 40402)


class Migration(NamedTuple):
    """One step: the rules of the newer version, in one direction."""

    mode: str
    rule_set: Contract


def migrations(
    registry: RegistryClient, subject: str, written: Schema, target: Registered
) -> list[Migration]:
    """Return the steps from the writer's version to the target, in the order in which they run."""
    source = registry.lookup(subject, written, deleted=True)
    if source.version is None or target.version is None or source.version == target.version:
        return []
    mode = UPGRADE if source.version < target.version else DOWNGRADE
    first, last = sorted((source.version, target.version))
    steps = []
    for version in range(max(first + 1, last - MAX_VERSIONS), last + 1):
        try:
            rule_set: Any = registry.version(subject, version).schema.rule_set
        except RegistryRefused as error:
            if error.code not in DELETED:
                raise
            continue
        if any(each.get("mode") in (mode, "UPDOWN") for each in (rule_set or {}).get(MIGRATION) or ()):
            steps.append(Migration(mode, rule_set))
    return steps if mode == UPGRADE else steps[::-1]


MAX_CODECS = 1_000


@dataclass(frozen=True, slots=True)
class _Reader:
    """How records of one schema are read."""

    codec: Codec
    schema: Schema
    """The schema whose rules run: the writer's, or the latest."""
    written: Schema
    steps: Sequence[Migration] = ()
    target: Codec | None = None
    """What migrated data becomes; None if there are no steps."""

    @property
    def has_rules(self) -> bool:
        """Whether more has to be done than decoding."""
        return bool(self.schema.rule_set or self.written.rule_set or self.steps)


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
        use_latest_version: bool = False,
        subject_name: str | SubjectName = "topic",
        ignore_rules: bool = False,
        dead_letters: DeadLetters | None = None,
        local_kms_secret: str | None = None,
    ) -> None:
        """Take a registry or its URL; see the class for the rest."""
        self.registry = RegistryClient(registry) if isinstance(registry, str) else registry
        self._options = CodecOptions(reader_schema, message_type, as_dict, validate)
        self._uses_latest = use_latest_version
        self._subject_name = strategy_of(subject_name)
        encryption = Encryption(self.registry, local_kms_secret)
        self._rules = None if ignore_rules else RuleEngine(dead_letters, encryption)
        self._readers: dict[tuple[int | str, str], _Reader] = {}

    def __call__(self, data: bytes) -> Any:
        """Return what a value means that names its schema in front."""
        return self.deserialize_record("", VALUE, data, ())

    def deserialize_record(
        self, topic: str, field: str, data: bytes | None, headers: Iterable[tuple[str, bytes | None]]
    ) -> Any:
        """Return what the key or value of a record means; raise SerdeError, which says why not."""
        if data is None:
            return None
        headers = tuple(headers)
        frame = read_frame(field, data, headers)
        if not self._uses_latest:
            reader = self._readers.get((frame.schema, "")) or self._load(frame.schema)
        else:
            reader = self._load_latest(topic, field, frame.schema)
        if self._rules is None or not reader.has_rules:
            return reader.codec.decode(frame)
        return self._decode(self._rules, reader, frame, Subject(topic, field, "", data, headers))

    def _decode(self, rules: RuleEngine, reader: _Reader, frame: Frame, place: Subject) -> Any:
        """Decode a record, and run its rules."""
        place = replace(place, name=self._subject_name(place.topic, place.field, reader.codec.record_name))
        payload = frame.data
        encoded = rules.run(READ, reader.written.rule_set, place, payload, phase=ENCODING)
        if encoded is not payload:
            whole = frame.payload is None
            frame = frame._replace(**{"rest" if whole else "payload": encoded})
        found = reader.codec.decode(frame)
        if reader.target is not None:
            found = _plain(found)
            for mode, rule_set in reader.steps:
                found = rules.run(mode, rule_set, place, found, phase=MIGRATION)
            found = _as_read(reader.target, found)
        codec = reader.target or reader.codec
        return rules.run(
            READ, reader.schema.rule_set, place, found, transform=codec.transform, tags=reader.schema.tags
        )

    def _load(self, name: int | str) -> _Reader:
        schema = self._schema(name)
        return self._keep((name, ""), _Reader(codec_of(self.registry, schema, self._options), schema, schema))

    def _load_latest(self, topic: str, field: str, name: int | str) -> _Reader:
        """Return how a record is read as the latest version of its subject."""
        written = self._schema(name)
        own = self._readers.get((name, "own"))
        if own is None:
            own = self._keep((name, "own"), _Reader(self._codec(written, None), written, written))
        subject = self._subject_name(topic, field, own.codec.record_name)
        latest = self.registry.latest(subject, "serialized" if written.schema_type == PROTOBUF else None)
        key = (name, f"{subject} {latest.schema_id}")
        found = self._readers.get(key)
        if found is not None:
            return found
        steps = migrations(self.registry, subject, written, latest) if self._rules is not None else []
        if steps:
            target = self._codec(latest.schema, None)
            return self._keep(key, _Reader(own.codec, latest.schema, written, steps, target))
        codec = self._codec(written, latest.schema.text if written.schema_type == AVRO else None)
        return self._keep(key, _Reader(codec, latest.schema, written))

    def _codec(self, schema: Schema, reader_schema: str | None) -> Codec:
        return codec_of(self.registry, schema, replace(self._options, reader_schema=reader_schema))

    def _schema(self, name: int | str) -> Schema:
        is_protobuf = self.schema_type == PROTOBUF
        schema = self.registry.by_id(name, "serialized" if is_protobuf else None)
        if schema.schema_type == PROTOBUF and not is_protobuf:
            schema = self.registry.by_id(name, "serialized")
        if self.schema_type is not None and schema.schema_type != self.schema_type:
            raise SerdeError(
                f"its schema {name} is of type {schema.schema_type}, not {self.schema_type}: "
                "RegistryDeserializer reads all types"
            )
        return schema

    def _keep(self, key: tuple[int | str, str], reader: _Reader) -> _Reader:
        if len(self._readers) >= MAX_CODECS:
            self._readers.clear()
        self._readers[key] = reader
        return reader


def _plain(found: Any) -> Any:
    if not hasattr(found, "DESCRIPTOR"):
        return found
    from ottla.registry.serdes.protobuf_codec import as_dict

    return as_dict(found)


def _as_read(codec: Codec, found: Any) -> Any:
    """Return migrated data in the form that the target's codec gives it."""
    as_read = getattr(codec, "as_read", None)
    return found if as_read is None else as_read(found)


class AvroDeserializer(RegistryDeserializer):
    """Reads Avro into dicts, and whatever else Avro has types for."""

    schema_type = AVRO


class JsonSchemaDeserializer(RegistryDeserializer):
    """Reads JSON, and checks it unless `validate` is False."""

    schema_type = JSON


class ProtobufDeserializer(RegistryDeserializer):
    """Reads messages of a class, or of one made from the schema; dicts with `as_dict`."""

    schema_type = PROTOBUF
