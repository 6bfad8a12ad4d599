"""Writes and reads Avro with fastavro; a reader schema makes old and new records look alike."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from ottla.registry.formats import ParsedSchema, parse
from ottla.registry.formats.avro.schema import AvroSchema
from ottla.registry.serdes.avro_bounds import AvroBounds
from ottla.registry.serdes.codecs import AVRO, CodecOptions
from ottla.registry.serdes.errors import SerdeError
from ottla.registry.serdes.framing import Frame
from ottla.registry.serdes.plain_json import avro_from_json
from ottla.registry.serdes.rules.field_walks import AvroWalk
from ottla.registry.serdes.rules.fields import Visit


class AvroCodec:
    """Data of one Avro schema: dicts, or what the schema's type is in Python."""

    def __init__(self, text: str, references: Mapping[str, str], options: CodecOptions) -> None:
        parsed = parse(AVRO, text, references, validate=False)
        self.record_name = parsed.name
        self._parsed = parsed
        self._schema = _resolved(parsed)
        self._bounds = AvroBounds(cast("AvroSchema", parsed).type)
        self._is_bytes = parsed.canonical == '"bytes"'
        self._reader: Any = None
        self._walk: AvroWalk | None = None
        if options.reader_schema is not None:
            self._parsed = parse(AVRO, options.reader_schema, references, validate=False)
            self._reader = _resolved(self._parsed)

    def encode(self, data: Any) -> tuple[bytes, bytes]:
        """Write data; bytes of the schema `bytes` are written as they are, as Confluent does."""
        if self._is_bytes:
            return b"", bytes(data)
        stream = io.BytesIO()
        try:
            schemaless_writer(stream, self._schema, data)
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
            raise SerdeError(f"it does not fit the schema {self.record_name}: {_text(error)}") from None
        return b"", stream.getvalue()

    def from_json(self, data: Any) -> Any:
        """Return data with the types that JSON lacks: bytes, decimals, times."""
        return avro_from_json(self._schema, data)

    def decode(self, frame: Frame) -> Any:
        """Read data into the reader schema, if there is one."""
        if self._is_bytes:
            return frame.data
        self._bounds.check(frame.data)
        stream = io.BytesIO(frame.data)
        try:
            found = schemaless_reader(stream, self._schema, self._reader)
        except Exception as error:  # whatever bytes can make of a decoder
            raise SerdeError(f"it is not Avro of the schema {self.record_name}: {_text(error)}") from None
        if stream.read(1):
            raise SerdeError(f"bytes are left after the Avro data of the schema {self.record_name}")
        return found

    def transform(self, data: Any, visit: Visit, by_path: Mapping[str, Iterable[str]]) -> Any:
        """Visit the fields of data as it was decoded, or is to be encoded."""
        if self._walk is None:
            self._walk = AvroWalk(json.loads(self._parsed.formatted("resolved")))
        return self._walk(data, visit, by_path)


def _resolved(parsed: ParsedSchema) -> Any:
    """Return the schema for fastavro, with all that it refers to within it."""
    return parse_schema(json.loads(parsed.formatted("resolved")))


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
