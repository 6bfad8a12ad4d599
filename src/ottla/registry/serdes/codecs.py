"""Turns data into bytes and back with one schema: what a format's module offers to the serdes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.registry.formats import InvalidSchema
from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.framing import Frame
from ottla.registry.serdes.registry_client import RegistryClient, Schema
from ottla.registry.serdes.rules.fields import Visit

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"


@dataclass(frozen=True, slots=True)
class CodecOptions:
    """What a user wants of the data."""

    reader_schema: str | None = None
    message_type: Any = None
    """Protobuf: a class of messages, or the name of a message in the schema."""
    as_dict: bool = False
    validate: bool = True


class Codec(Protocol):
    """Writes and reads data of one schema."""

    @property
    def record_name(self) -> str | None:
        """Return the name of the record, for the name of the subject."""

    def encode(self, data: Any) -> tuple[bytes, bytes]:
        """Return the message indexes, or nothing, and the data."""

    def from_json(self, data: Any) -> Any:
        """Return what data that was read from JSON means in this schema."""

    def decode(self, frame: Frame) -> Any:
        """Return the data that was written with this schema."""

    def transform(self, data: Any, visit: Visit, by_path: Mapping[str, Iterable[str]]) -> Any:
        """Return data with what `visit` returns for each field; see rules/fields.py."""


def codec_of(registry: RegistryClient, schema: Schema, options: CodecOptions) -> Codec:
    """Return what reads and writes with a schema; raise SerdeError if it cannot be used."""
    try:
        if schema.schema_type == PROTOBUF:
            from ottla.registry.serdes.protobuf_codec import ProtobufCodec, file_of

            return ProtobufCodec(file_of(registry, schema), options)
        references = {name: each.text for name, each in registry.referenced(schema).items()}
        return text_codec(schema, references, options)
    except ImportError as error:
        raise SerdeError(f"{error}: install it with pip install 'ottla[registry,avro]'") from None
    except InvalidSchema as error:
        raise SerdeError(str(error)) from None


def text_codec(schema: Schema, references: Mapping[str, str], options: CodecOptions) -> Codec:
    """Return the codec of a format whose schemas are plain texts."""
    if schema.schema_type == AVRO:
        from ottla.registry.serdes.avro_codec import AvroCodec

        return AvroCodec(schema.text, references, options)
    if schema.schema_type == JSON:
        from ottla.registry.serdes.json_codec import JsonCodec

        return JsonCodec(schema.text, references, options)
    raise SerdeError(
        f"schemas of type {schema.schema_type} cannot be used: there are AVRO, JSON and PROTOBUF"
    )
