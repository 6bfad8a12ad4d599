"""Converters without a registry: String, ByteArray, numbers, and JSON with and without schemas."""

from __future__ import annotations

import json
import struct as packing
from typing import Any, ClassVar

from ottla.connect.config.keys import BOOLEAN, HIGH, INT, LOW, ConfigKey
from ottla.connect.converters import header_values
from ottla.connect.converters.base import Converter
from ottla.connect.data import schema as s
from ottla.connect.data.json_codec import Decode, Encode, FastPathMiss, decoder_of, encoder_of
from ottla.connect.data.json_form import from_json, schema_from_json, schema_to_json, to_json
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError

OPTIONAL_STRING = Schema(s.STRING, optional=True)
OPTIONAL_BYTES = Schema(s.BYTES, optional=True)


class StringConverter(Converter):
    """Texts."""

    name = "org.apache.kafka.connect.storage.StringConverter"
    keys = (ConfigKey("converter.encoding", default="UTF-8", doc="The character set.", importance=HIGH),)

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of a value."""
        return None if value is None else as_text(value).encode(self.settings["converter.encoding"])

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return a text."""
        if data is None:
            return OPTIONAL_STRING, None
        try:
            return OPTIONAL_STRING, data.decode(self.settings["converter.encoding"])
        except UnicodeDecodeError as error:
            raise DataError(f"Failed to deserialize string: {error}") from None


def as_text(value: Any) -> str:
    """Return a value as text: structs and maps in JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return header_values.java_float_text(value)
    if isinstance(value, dict | list):
        return json.dumps(to_json(None, value), separators=(",", ":"), ensure_ascii=False)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class ByteArrayConverter(Converter):
    """Bytes as they are."""

    name = "org.apache.kafka.connect.converters.ByteArrayConverter"

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes."""
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        kind = schema.type if schema is not None else type(value).__name__
        raise DataError(f"Invalid schema type for ByteArrayConverter: {kind}")

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the bytes."""
        return OPTIONAL_BYTES, data


class JsonConverter(Converter):
    """JSON; with `schemas.enable` as `{"schema": ..., "payload": ...}`."""

    name = "org.apache.kafka.connect.json.JsonConverter"
    keys = (
        ConfigKey("schemas.enable", BOOLEAN, True, "Each value carries its schema.", HIGH),
        ConfigKey("schemas.cache.size", INT, 1000, "Schemas that are kept.", HIGH),
        ConfigKey(
            "replace.null.with.default",
            BOOLEAN,
            True,
            "A null of a field with a default is that default.",
            LOW,
        ),
        ConfigKey(
            "decimal.format",
            default="BASE64",
            doc="How decimals are written.",
            importance=LOW,
            values=("BASE64", "NUMERIC"),
        ),
    )

    def __init__(self, config: Any, *, is_key: bool) -> None:
        super().__init__(config, is_key=is_key)
        self._has_schemas: bool = self.settings["schemas.enable"]
        self._has_defaults: bool = self.settings["replace.null.with.default"]
        self._decimals: str = self.settings["decimal.format"].upper()
        self._written: dict[int, tuple[Schema, Encode, bytes]] = {}
        self._read: dict[str, list[tuple[bytes, Schema, Decode]]] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the JSON of a value."""
        if schema is None:
            return None if value is None else self._to_bytes(None, value)
        kept = self._written.get(id(schema))
        if kept is None or kept[0] is not schema:
            kept = self._learn_to_write(schema)
        _, encode, start = kept
        try:
            text = encode(value).encode()
        except (FastPathMiss, ValueError, ArithmeticError):
            return self._to_bytes(schema, value)
        return start + text + b"}" if self._has_schemas else text

    def around(self, schema: Schema) -> tuple[str, str]:
        """Return what stands before and after the JSON of each value of a schema."""
        kept = self._written.get(id(schema))
        if kept is None or kept[0] is not schema:
            kept = self._learn_to_write(schema)
        return (kept[2].decode(), "}") if self._has_schemas else ("", "")

    def schema_of(self, topic: str, data: bytes) -> tuple[bytes, Schema] | None:
        """Return the schema of a value, and the bytes that all values of that schema begin with."""
        for _ in range(2):
            for start, schema, _ in self._read.get(topic, ()):
                if data.startswith(start) and data.endswith(b"}"):
                    return start, schema
            self._to_value(topic, data)
        return None

    def _learn_to_write(self, schema: Schema) -> tuple[Schema, Encode, bytes]:
        if len(self._written) >= self.settings["schemas.cache.size"]:
            self._written.clear()
        start = f'{{"schema":{_json(schema_to_json(schema))},"payload":'.encode()
        kept = self._written[id(schema)] = (
            schema,
            encoder_of(self._of_values(schema), self._decimals),
            start,
        )
        return kept

    def _to_bytes(self, schema: Schema | None, value: Any) -> bytes:
        """Encode a value of any type, or say what is wrong with it."""
        if schema is not None:
            s.check_value(schema, value)
        try:
            payload = to_json(self._of_values(schema), value, decimals=self._decimals)
            if self._has_schemas:
                payload = {"schema": schema_to_json(schema), "payload": payload}
            return _json(payload).encode()
        except (TypeError, ValueError, ArithmeticError) as error:
            raise DataError(f"Converting to JSON failed: {error}") from None

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return schema and value of JSON."""
        if data is None:
            return None, None
        for start, schema, decode in self._read.get(topic, ()):
            if data.startswith(start) and data.endswith(b"}"):
                try:
                    return schema, decode(json.loads(str(data[len(start) : -1], "utf-8")))
                except (FastPathMiss, ValueError, RecursionError):
                    break
        return self._to_value(topic, data)

    def _to_value(self, topic: str, data: bytes) -> tuple[Schema | None, Any]:
        """Parse all of it, or say what is wrong with it."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"Converting byte[] to Kafka Connect data failed due to serialization error: {error}"
            ) from None
        if not self._has_schemas:
            return None, found
        if not isinstance(found, dict) or set(found) != {"schema", "payload"}:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not '
                "contain additional fields. If you are trying to deserialize plain JSON data, set "
                "schemas.enable=false in your converter configuration."
            )
        schema = self._learn_to_read(topic, data, found["schema"])
        return schema, from_json(self._of_values(schema), found["payload"])

    def _of_values(self, schema: Schema | None) -> Any:
        """Return the schema by which values are read and written."""
        return schema if self._has_defaults or schema is None else schema.without_defaults()

    def _learn_to_read(self, topic: str, data: bytes, found: Any) -> Schema | None:
        """Return a schema; the next values of the topic that begin with the same one need not parse it."""
        known = self._read.setdefault(topic, [])
        start = schema_part(data)
        for begin, schema, _ in known:
            if begin == start:
                return schema
        made = schema_from_json(found)
        if made is not None and start is not None:
            if len(known) >= SCHEMAS_OF_A_TOPIC:
                known.clear()
            known.insert(0, (start, made, decoder_of(self._of_values(made))))
        return made


SCHEMAS_OF_A_TOPIC = 8
_SCHEMA, _PAYLOAD = b'{"schema":', b',"payload":'


def schema_part(data: bytes) -> bytes | None:
    """Return what comes before the payload, if the schema comes first and there is no space in between."""
    if not data.startswith(_SCHEMA) or not data.endswith(b"}"):
        return None
    text = data.decode("utf-8", "surrogateescape")
    try:
        _, end = json.JSONDecoder().raw_decode(text, len(_SCHEMA))
    except ValueError:
        return None
    start = text[:end].encode("utf-8", "surrogateescape") + _PAYLOAD
    return start if data.startswith(start) else None


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class _NumberConverter(Converter):
    form: ClassVar[str]
    schema: ClassVar[Schema]
    number: ClassVar[type]

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the number in big-endian bytes."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (self.number, int)):
            raise DataError(f"Failed to serialize to {self.schema.type}: {type(value).__name__}")
        try:
            return packing.pack(self.form, value)
        except packing.error as error:
            raise DataError(f"Failed to serialize to {self.schema.type}: {error}") from None

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the number."""
        if data is None:
            return self.schema, None
        if len(data) != packing.calcsize(self.form):
            raise DataError(f"Failed to deserialize {self.schema.type}: {len(data)} bytes")
        return self.schema, packing.unpack(self.form, data)[0]


class ShortConverter(_NumberConverter):
    """16-bit numbers."""

    name = "org.apache.kafka.connect.converters.ShortConverter"
    form, schema, number = ">h", Schema(s.INT16, optional=True), int


class IntegerConverter(_NumberConverter):
    """32-bit numbers."""

    name = "org.apache.kafka.connect.converters.IntegerConverter"
    form, schema, number = ">i", Schema(s.INT32, optional=True), int


class LongConverter(_NumberConverter):
    """64-bit numbers."""

    name = "org.apache.kafka.connect.converters.LongConverter"
    form, schema, number = ">q", Schema(s.INT64, optional=True), int


class FloatConverter(_NumberConverter):
    """32-bit floating-point numbers."""

    name = "org.apache.kafka.connect.converters.FloatConverter"
    form, schema, number = ">f", Schema(s.FLOAT32, optional=True), float


class DoubleConverter(_NumberConverter):
    """64-bit floating-point numbers."""

    name = "org.apache.kafka.connect.converters.DoubleConverter"
    form, schema, number = ">d", Schema(s.FLOAT64, optional=True), float


class BooleanConverter(Converter):
    """One byte: 0 or 1."""

    name = "org.apache.kafka.connect.converters.BooleanConverter"

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the byte."""
        if value is not None and not isinstance(value, bool):
            raise DataError(f"Failed to serialize to a boolean: {type(value).__name__}")
        return None if value is None else bytes([value])

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the boolean."""
        schema = Schema(s.BOOLEAN, optional=True)
        if data is None:
            return schema, None
        if data not in (b"\x00", b"\x01"):
            raise DataError("Failed to deserialize boolean")
        return schema, data == b"\x01"


class SimpleHeaderConverter(Converter):
    """Headers as text; on the way in, numbers, times, arrays and maps are recognized."""

    name = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of a value."""
        return None if value is None else header_values.text_of(value).encode()

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return what the text stands for."""
        if data is None:
            return None, None
        try:
            return header_values.parse(data.decode())
        except UnicodeDecodeError:
            return header_values.BYTES, data


PLAIN_CONVERTERS: tuple[type[Converter], ...] = (
    StringConverter,
    ByteArrayConverter,
    JsonConverter,
    ShortConverter,
    IntegerConverter,
    LongConverter,
    FloatConverter,
    DoubleConverter,
    BooleanConverter,
)
HEADER_CONVERTERS: tuple[type[Converter], ...] = (SimpleHeaderConverter, *PLAIN_CONVERTERS)
