"""Paths to nested fields: V1 is one name, V2 has dots and quotes with back-ticks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.connect.config.keys import HIGH, ConfigKey
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError, WrongConfig

SYNTAX_KEY = ConfigKey(
    "field.syntax.version",
    default="V1",
    doc="V1: a name of the first level. V2: a path with dots; a name with dots in it is in back-ticks.",
    importance=HIGH,
    values=("V1", "V2"),
)


@dataclass(frozen=True)
class FieldPath:
    """The names from the outside to the inside."""

    steps: tuple[str, ...]

    @classmethod
    def of(cls, text: str, syntax: str) -> FieldPath:
        """Parse a path."""
        if syntax.upper() == "V1":
            return cls((text,))
        steps, at = [], 0
        while at <= len(text):
            if text[at : at + 1] == "`":
                end = at + 1
                while True:
                    end = text.find("`", end)
                    if end < 0:
                        raise WrongConfig("field", text, "Incomplete backtick pair")
                    if text[end - 1] != "\\" and text[end + 1 : end + 2] in ("", "."):
                        break
                    end += 1
                steps.append(text[at + 1 : end].replace("\\`", "`"))
                at = end + 2
            else:
                end = text.find(".", at)
                end = len(text) if end < 0 else end
                steps.append(text[at:end])
                at = end + 1
        return cls(tuple(steps))

    def value_in(self, value: Any) -> Any:
        """Return the field's value; None if there is none."""
        for step in self.steps:
            if value is None:
                return None
            if not isinstance(value, dict):
                found = type(value).__name__
                raise DataError(f"Only Map objects supported for [nested field access], found: {found}")
            value = value.get(step)
        return value

    def schema_in(self, schema: Schema | None) -> Schema | None:
        """Return the field's schema; None if there is none."""
        for step in self.steps:
            found = None if schema is None else schema.field(step)
            if found is None:
                return None
            schema = found.schema
        return schema
