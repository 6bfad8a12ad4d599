"""Encodes and decodes the keys and values of `ottla produce` and `ottla consume` with a schema registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.support.options import REGISTRY_URL, REGISTRY_VARIABLE
from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem
from ottla.cli.support.records import Formatter, JsonText, NewRecord
from ottla.cli.support.table_input import Kinds, field_kinds
from ottla.client.consumer import ConsumerRecord

if TYPE_CHECKING:
    from ottla.registry.serdes import RegistryDeserializer, RegistrySerializer

FORMATS = ("avro", "json", "protobuf", "registry")
TYPES = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
SUFFIXES = {".avsc": "avro", ".json": "json", ".proto": "protobuf"}

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """What the options say about schemas."""

    url: str
    formats: dict[str, str | None]
    schemas: dict[str, str | None]
    framing: str = "prefix"

    @property
    def fields(self) -> list[str]:
        """The fields, key and value, that have a schema."""
        return [each for each in ("key", "value") if self.formats.get(each) or self.schemas.get(each)]


def schema_options(*, writes: bool) -> Callable[[Command], Command]:
    """Add `--registry`, `--value-format`, `--value-schema` and the same for keys; see `schema_settings`."""
    schema_help = (
        "The schema of the {}s: a file (.avsc, .json, .proto; it is registered), an id, or a subject.  "
        "[default: the latest of TOPIC-{}]"
        if writes
        else "An Avro schema, in a file, to read the {}s into.  [default: the schema each was written with]"
    )

    def decorate(command: Command) -> Command:
        if writes:
            command = click.option(
                "--framing",
                type=click.Choice(["prefix", "header"]),
                default="prefix",
                callback=_keep,
                expose_value=False,
                help="Where a record names its schema: five bytes in front, or a header with its GUID.",
            )(command)
        for field in ("key", "value"):
            command = click.option(
                f"--{field}-schema",
                metavar="FILE|ID|SUBJECT" if writes else "FILE",
                callback=_keep,
                expose_value=False,
                help=schema_help.format(field, field),
            )(command)
            command = click.option(
                f"--{field}-format",
                type=click.Choice(FORMATS),
                callback=_keep,
                expose_value=False,
                help=f"{'Encode' if writes else 'Decode'} {field}s with the registry; text is JSON.",
            )(command)
        return click.option(
            "--registry",
            metavar="URL",
            envvar=REGISTRY_VARIABLE,
            default=REGISTRY_URL,
            callback=_keep,
            expose_value=False,
            help=f"The schema registry.  [default: ${REGISTRY_VARIABLE} or {REGISTRY_URL}]",
        )(command)

    return decorate


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    ctx.meta[f"ottla.schemas.{param.name}"] = value
    return value


def schema_settings() -> SchemaSettings:
    """Return what the options of the running command say."""
    meta = click.get_current_context().meta

    def given(name: str) -> Any:
        return meta.get(f"ottla.schemas.{name}")

    formats = {field: given(f"{field}_format") for field in ("key", "value")}
    schemas = {field: given(f"{field}_schema") for field in ("key", "value")}
    return SchemaSettings(given("registry") or REGISTRY_URL, formats, schemas, given("framing") or "prefix")


# Writing.


class Encoder:
    """Encodes the JSON of a record's key and value."""

    def __init__(self, topic: str, settings: SchemaSettings) -> None:
        self._topic = topic
        self.fields = settings.fields
        self._serializers = {field: _serializer(settings, field) for field in self.fields}

    def encode(self, record: NewRecord) -> NewRecord:
        """Return a record as it is sent; ValueError says what is wrong with it."""
        headers = list(record.headers)
        found: dict[str, bytes | None] = {"key": record.key, "value": record.value}
        for field, serializer in self._serializers.items():
            text = found[field]
            if text is not None:
                data = _parsed(field, text)
                found[field] = serializer.serialize_json(self._topic, field, data, headers)
        return record._replace(key=found["key"], value=found["value"], headers=tuple(headers))


def value_kinds(topic: str, settings: SchemaSettings) -> Kinds:
    """Return the types of the fields of the values, by their schema; nothing without one."""
    from ottla.registry.serdes import RegistryClient, SerdeError

    if "value" not in settings.fields:
        return {}
    kind, schema = settings.formats["value"], settings.schemas["value"]
    try:
        if schema is not None and Path(schema).is_file():
            kind = SUFFIXES.get(Path(schema).suffix, "avro") if kind in (None, "registry") else kind
            return field_kinds(TYPES[str(kind)], Path(schema).read_text(encoding="utf-8"))
        client = RegistryClient(settings.url)
        if schema is not None and schema.isdecimal():
            found = client.by_id(int(schema))
        else:
            found = client.latest(schema or f"{topic}-value").schema
        return field_kinds(found.schema_type, found.text)
    except SerdeError as error:
        raise Problem(str(error)) from None
    except (OSError, ValueError) as error:
        raise Problem(f"cannot read {schema}: {error}") from None


def _parsed(field: str, text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"the {field} is not JSON: {error}") from None


def _serializer(settings: SchemaSettings, field: str) -> RegistrySerializer:
    from ottla.registry.serdes import RegistryClient, RegistrySerializer, SerdeError

    kind, schema = settings.formats[field], settings.schemas[field]
    try:
        client = RegistryClient(settings.url)
        if schema is None:
            return RegistrySerializer(client, framing=settings.framing)
        if schema.isdecimal():
            return RegistrySerializer(client, use_schema_id=int(schema), framing=settings.framing)
        file = Path(schema)
        if not file.is_file():
            if file.suffix in SUFFIXES:
                raise Problem(f"there is no file {schema}")
            return RegistrySerializer(client, subject_name=lambda *_: schema, framing=settings.framing)
        kind = SUFFIXES.get(file.suffix, "avro") if kind in (None, "registry") else kind
        text = file.read_text(encoding="utf-8")
        return RegistrySerializer(client, text, schema_type=TYPES[str(kind)], framing=settings.framing)
    except SerdeError as error:
        raise Problem(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"cannot read {schema}: {error}") from None


# Reading.


def decoding(write: Formatter, settings: SchemaSettings) -> Formatter:
    """Return what decodes a record, then writes it; what cannot be decoded is written as it is."""
    if not settings.fields:
        return write
    deserializers = {field: _deserializer(settings, field) for field in settings.fields}

    def decode_and_write(record: ConsumerRecord) -> bytes:
        changes: dict[str, Any] = {}
        for field, deserializer in deserializers.items():
            data = getattr(record, field)
            if data is not None:
                changes[field] = _decoded(deserializer, record, field, data)
        return write(record._replace(**changes))

    return decode_and_write


def _decoded(deserializer: RegistryDeserializer, record: ConsumerRecord, field: str, data: bytes) -> bytes:
    from ottla.registry.serdes import RegistryUnavailable, SerdeError
    from ottla.registry.serdes.plain_json import to_json_text

    try:
        found = deserializer.deserialize_record(record.topic, field, data, record.headers)
        return JsonText(to_json_text(found))
    except RegistryUnavailable as error:
        raise Problem(str(error), f"name another one with --registry URL or {REGISTRY_VARIABLE}") from None
    except SerdeError as error:
        echo_err(f"{record.topic}-{record.partition} at offset {record.offset}, {field} not decoded: {error}")
        return data


def _deserializer(settings: SchemaSettings, field: str) -> RegistryDeserializer:
    from ottla.registry.serdes import (
        AvroDeserializer,
        JsonSchemaDeserializer,
        ProtobufDeserializer,
        RegistryDeserializer,
        SerdeError,
    )

    kinds = {"avro": AvroDeserializer, "json": JsonSchemaDeserializer, "protobuf": ProtobufDeserializer}
    kind, schema = settings.formats[field], settings.schemas[field]
    try:
        text = None if schema is None else Path(schema).read_text(encoding="utf-8")
        if text is not None and kind not in (None, "avro"):
            raise click.UsageError(f"--{field}-schema is for Avro: records are read into it")
        chosen = AvroDeserializer if text is not None else kinds.get(str(kind), RegistryDeserializer)
        return chosen(settings.url, reader_schema=text)
    except SerdeError as error:
        raise Problem(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"cannot read {schema}: {error}") from None
