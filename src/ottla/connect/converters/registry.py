"""Converters that keep schemas in a schema registry: Avro, JSON Schema, Protobuf."""

from __future__ import annotations

from typing import Any, ClassVar

from ottla.connect.config.keys import BOOLEAN, HIGH, PASSWORD, ConfigKey
from ottla.connect.converters.base import Converter
from ottla.connect.converters.registry_schemas import from_avro, to_avro, to_json_schema, to_protobuf
from ottla.connect.data.json_form import to_json
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError, RetriableError

MAX_SCHEMAS = 1_000


class _RegistryConverter(Converter):
    keys = (
        ConfigKey("schema.registry.url", doc="Where the registry is.", importance=HIGH),
        ConfigKey("basic.auth.user.info", PASSWORD, "", "USER:PASSWORD of the registry."),
        ConfigKey("auto.register.schemas", BOOLEAN, True, "Register schemas that are new."),
        ConfigKey("use.latest.version", BOOLEAN, False, "Write with the subject's latest schema."),
    )
    schema_type: ClassVar[str]

    def __init__(self, config: Any, *, is_key: bool) -> None:
        super().__init__(config, is_key=is_key)
        self._field = "key" if is_key else "value"
        self._serializers: dict[int | None, tuple[Schema | None, Any]] = {}
        self._schemas: dict[Any, Schema | None] = {}
        self._deserializer: Any = None

    def _registry(self) -> str:
        url: str = self.settings["schema.registry.url"].partition(",")[0]
        user = self.settings["basic.auth.user.info"]
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{user}@{rest}" if user else url

    def _serializer(self, schema: Schema | None) -> Any:
        from ottla.registry.serdes import RegistrySerializer

        key = None if schema is None else id(schema)
        kept = self._serializers.get(key)
        if kept is None or kept[0] is not schema:
            if len(self._serializers) >= MAX_SCHEMAS:
                self._serializers.clear()
            latest = self.settings["use.latest.version"] or schema is None
            text = None if latest or schema is None else self._text(schema)
            made = RegistrySerializer(
                self._registry(),
                text,
                schema_type=self.schema_type,
                auto_register=self.settings["auto.register.schemas"],
                use_latest_version=latest,
            )
            kept = self._serializers[key] = (schema, made)
        return kept[1]

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value, with the number of its schema in front."""
        if value is None:
            return None
        try:
            return self._write(topic, schema, value)
        except (OSError, TimeoutError) as error:
            raise RetriableError(f"the schema registry does not answer: {error}") from None
        except DataError:
            raise
        except Exception as error:
            raise DataError(
                f"Failed to serialize {self.schema_type} data from topic {topic}: {error}"
            ) from None

    def _write(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        data = self._data(schema, value)
        found: bytes | None = self._serializer(schema).serialize_record(topic, self._field, data, [])
        return found

    def _text(self, schema: Schema) -> str:
        raise NotImplementedError

    def _data(self, schema: Schema | None, value: Any) -> Any:
        return value

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return schema and value of bytes."""
        from ottla.registry.serdes import RegistryDeserializer

        if data is None:
            return None, None
        if self._deserializer is None:
            self._deserializer = RegistryDeserializer(self._registry(), as_dict=True)
        try:
            value = self._deserializer.deserialize_record(topic, self._field, data, ())
            return self._schema_of(data), value
        except (OSError, TimeoutError) as error:
            raise RetriableError(f"the schema registry does not answer: {error}") from None
        except Exception as error:
            text = f"Failed to deserialize data for topic {topic} to {self.schema_type}: {error}"
            raise DataError(text) from None

    def _schema_of(self, data: bytes) -> Schema | None:
        return None


class AvroConverter(_RegistryConverter):
    """Avro."""

    name = "io.confluent.connect.avro.AvroConverter"
    schema_type = "AVRO"

    def _text(self, schema: Schema) -> str:
        return to_avro(schema)

    def _schema_of(self, data: bytes) -> Schema | None:
        number = int.from_bytes(data[1:5], "big")
        if number not in self._schemas:
            self._schemas[number] = from_avro(self._deserializer.registry.by_id(number).text)
        return self._schemas[number]


class JsonSchemaConverter(_RegistryConverter):
    """JSON, with a JSON Schema in the registry."""

    name = "io.confluent.connect.json.JsonSchemaConverter"
    schema_type = "JSON"

    def _text(self, schema: Schema) -> str:
        return to_json_schema(schema)

    def _data(self, schema: Schema | None, value: Any) -> Any:
        return to_json(schema, value)


class ProtobufConverter(_RegistryConverter):
    """Protobuf messages."""

    name = "io.confluent.connect.protobuf.ProtobufConverter"
    schema_type = "PROTOBUF"

    def _text(self, schema: Schema) -> str:
        return to_protobuf(schema)

    def _data(self, schema: Schema | None, value: Any) -> Any:
        return (
            {key: each for key, each in value.items() if each is not None}
            if isinstance(value, dict)
            else value
        )


REGISTRY_CONVERTERS: tuple[type[Converter], ...] = (AvroConverter, JsonSchemaConverter, ProtobufConverter)
