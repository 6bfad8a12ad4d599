"""What transforms and predicates have in common: their config, and the part of a record that they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.connect.config.keys import BOOLEAN, MEDIUM, ConfigKey, Settings
from ottla.connect.data.record import Record
from ottla.connect.data.schema import STRUCT, Schema
from ottla.connect.errors import DataError

PACKAGE = "org.apache.kafka.connect.transforms."
OWN_PACKAGE = "ottla.transforms."
NULL_KEY = ConfigKey(
    "replace.null.with.default", BOOLEAN, True, "A null of a field with a default is that default.", MEDIUM
)


class Transform:
    """Changes a record."""

    name: ClassVar[str]
    keys: ClassVar[tuple[ConfigKey, ...]] = ()

    def __init__(self, config: Mapping[str, str]) -> None:
        self.settings = Settings(self.keys, config)
        self.set_up()

    def set_up(self) -> None:
        """Read the settings once; raise WrongConfig."""

    def apply(self, record: Record) -> Record | None:
        """Return the record, changed in place or not; None drops it. Raises DataError."""
        raise NotImplementedError


def with_defaults(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    """Return a struct with the defaults of fields instead of nulls."""
    missing = {
        each.name: each.schema.default
        for each in schema.fields
        if each.schema.default is not None and value.get(each.name) is None
    }
    return {**value, **missing} if missing else value


class PartTransform(Transform):
    """Changes the key or the value of a record; the subclasses of `both` say which."""

    is_key: ClassVar[bool] = False
    purpose: ClassVar[str] = ""

    def part(self, record: Record) -> tuple[Schema | None, Any]:
        """Return schema and value of the part."""
        return (record.key_schema, record.key) if self.is_key else (record.value_schema, record.value)

    def put(self, record: Record, schema: Schema | None, value: Any) -> Record:
        """Set the part."""
        if self.is_key:
            record.key_schema, record.key = schema, value
        else:
            record.value_schema, record.value = schema, value
        return record

    def apply(self, record: Record) -> Record | None:
        """Change the part."""
        schema, value = self.part(record)
        return self.put(record, *self.change(schema, value, record))

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the part's new schema and value."""
        raise NotImplementedError

    def with_defaults(self, schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
        """Return a struct as `replace.null.with.default` says."""
        return with_defaults(schema, value) if self.settings.get(NULL_KEY.name, True) else value

    def fields_of(self, schema: Schema | None, value: Any) -> dict[str, Any]:
        """Return the value as fields; raise if it is no struct or map."""
        if schema is not None and schema.type != STRUCT:
            raise DataError(f"Only Struct objects supported for [{self.purpose}], found: {schema.type}")
        if not isinstance(value, dict):
            kind = "null" if value is None else type(value).__name__
            wanted = (
                "Map objects supported in absence of schema" if schema is None else "Struct objects supported"
            )
            raise DataError(f"Only {wanted} for [{self.purpose}], found: {kind}")
        return value if schema is None else self.with_defaults(schema, value)


def both(cls: type[PartTransform]) -> tuple[type[PartTransform], type[PartTransform]]:
    """Return the two variants of a transform: of keys and of values."""
    simple = cls.__name__
    made: list[type[PartTransform]] = [
        type(
            f"{simple}{part}",
            (cls,),
            {
                "name": f"{PACKAGE}{simple}${part}",
                "is_key": part == "Key",
                "__doc__": cls.__doc__,
                "__module__": cls.__module__,
            },
        )
        for part in ("Key", "Value")
    ]
    return made[0], made[1]
