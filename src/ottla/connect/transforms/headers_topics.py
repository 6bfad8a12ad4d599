"""Transforms of headers and topics, the filter, and the predicates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any, ClassVar

from ottla.connect.config.keys import HIGH, LIST, ConfigKey, Settings, is_regex, java_regex, non_empty
from ottla.connect.converters import header_values
from ottla.connect.data.json_form import from_epoch_ms
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError, WrongConfig
from ottla.connect.transforms.base import NULL_KEY, PACKAGE, PartTransform, Transform
from ottla.connect.transforms.java_dates import JavaDateFormat

_REFERENCE = re.compile(
    r"(?P<text>[^$\\]+)|\\(?P<escaped>.)|\$(?:\{(?P<name>[A-Za-z]\w*)\}|\{(?P<braced>[0-9]+)\}|(?P<number>[0-9]+))",
    re.DOTALL,
)
"""What a replacement consists of."""


class DropHeaders(Transform):
    """Removes headers."""

    name = PACKAGE + "DropHeaders"
    keys = (ConfigKey("headers", LIST, doc="Names to remove.", importance=HIGH, check=non_empty),)

    def apply(self, record: Record) -> Record:
        """Remove them."""
        names = set(self.settings["headers"])
        record.headers = [each for each in record.headers if each.name not in names]
        return record


class InsertHeader(Transform):
    """Adds a header with a fixed value."""

    name = PACKAGE + "InsertHeader"
    keys = (
        ConfigKey("header", doc="The name.", importance=HIGH),
        ConfigKey(
            "value.literal", doc="The value; numbers, booleans and JSON are recognized.", importance=HIGH
        ),
    )

    def set_up(self) -> None:
        """Read the literal."""
        self.value = header_values.parse(self.settings["value.literal"])

    def apply(self, record: Record) -> Record:
        """Add it."""
        record.headers = [*record.headers, Header(self.settings["header"], *self.value)]
        return record


class HeaderFrom(PartTransform):
    """Copies or moves fields to headers."""

    purpose = "header from"
    keys = (
        ConfigKey("fields", LIST, doc="Fields.", importance=HIGH, check=non_empty),
        ConfigKey("headers", LIST, doc="The names of their headers.", importance=HIGH, check=non_empty),
        ConfigKey("operation", doc="move or copy.", importance=HIGH, values=("move", "copy")),
        NULL_KEY,
    )

    def set_up(self) -> None:
        """Check that there is a header for each field."""
        if len(self.settings["fields"]) != len(self.settings["headers"]):
            raise WrongConfig(
                "fields",
                ",".join(self.settings["fields"]),
                "'fields' config must have the same number of elements as 'headers' config.",
            )

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Add the headers, and return what is left."""
        fields = self.fields_of(schema, value)
        schemas = {} if schema is None else schema.field_map()
        for name, header in zip(self.settings["fields"], self.settings["headers"], strict=True):
            if schema is not None and name not in schemas:
                raise DataError(f"{name} is not a valid field name")
            given = fields.get(name)
            record.headers = [*record.headers, Header(header, schemas.get(name), given)]
        if self.settings["operation"].lower() == "copy":
            return schema, value
        moved = set(self.settings["fields"])
        left = {name: each for name, each in fields.items() if name not in moved}
        kept = {name: each for name, each in schemas.items() if name not in moved}
        return None if schema is None else schema.with_fields(kept), left


class RegexRouter(Transform):
    """Renames topics."""

    name = PACKAGE + "RegexRouter"
    keys = (
        ConfigKey("regex", doc="What must match the whole name.", importance=HIGH, check=is_regex),
        ConfigKey("replacement", doc="The new name; $1 is the first group.", importance=HIGH),
    )

    def set_up(self) -> None:
        """Parse the replacement."""
        self.regex = java_regex(self.settings["regex"])
        self.parts = list(self._parts(self.settings["replacement"]))

    def _parts(self, text: str) -> Iterator[str | tuple[int]]:
        r"""Yield texts and numbers of groups, as Java has them: $1, ${name}, and \$ for a dollar."""
        at = 0
        while at < len(text):
            found = _REFERENCE.match(text, at)
            if found is None:
                raise self._wrong(f"Illegal group reference at {at}")
            at = found.end()
            if found["text"] is not None:
                yield found["text"]
            elif found["escaped"] is not None:
                yield found["escaped"]
            elif found["name"] is not None:
                if found["name"] not in self.regex.groupindex:
                    raise self._wrong(f"No group with name {{{found['name']}}}")
                yield (self.regex.groupindex[found["name"]],)
            else:
                digits = found["number"] or found["braced"]
                while (
                    found["number"] and len(digits) > 1 and int(digits) > self.regex.groups
                ):  # $12 may be $1, and a 2
                    digits, at = digits[:-1], at - 1
                if int(digits) > self.regex.groups:
                    raise self._wrong(f"No group {digits}")
                yield (int(digits),)

    def _wrong(self, reason: str) -> WrongConfig:
        return WrongConfig("replacement", self.settings["replacement"], reason)

    def apply(self, record: Record) -> Record:
        """Set the topic."""
        match = self.regex.fullmatch(record.topic)
        if match:
            record.topic = "".join(
                each if isinstance(each, str) else match.group(each[0]) or "" for each in self.parts
            )
        return record


class TimestampRouter(Transform):
    """Adds the record's timestamp to the topic name."""

    name = PACKAGE + "TimestampRouter"
    keys = (
        ConfigKey("topic.format", default="${topic}-${timestamp}", doc="The new name.", importance=HIGH),
        ConfigKey(
            "timestamp.format",
            default="yyyyMMdd",
            doc="As in java.text.SimpleDateFormat, in UTC.",
            importance=HIGH,
        ),
    )

    def set_up(self) -> None:
        """Parse the format."""
        self.format = JavaDateFormat("timestamp.format", self.settings["timestamp.format"])

    def apply(self, record: Record) -> Record:
        """Set the topic."""
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record: {record.topic}")
        moment = self.format.text(from_epoch_ms(record.timestamp_ms).astimezone(UTC))
        name = self.settings["topic.format"].replace("${topic}", record.topic)
        record.topic = name.replace("${timestamp}", moment)
        return record


class Filter(Transform):
    """Drops records; used with a predicate."""

    name = PACKAGE + "Filter"

    def apply(self, record: Record) -> None:
        """Drop it."""


class Predicate:
    """Whether a transform applies to a record."""

    name: ClassVar[str]
    keys: ClassVar[tuple[ConfigKey, ...]] = ()

    def __init__(self, config: Mapping[str, str]) -> None:
        self.settings = Settings(self.keys, config)

    def holds(self, record: Record) -> bool:
        """Return whether it does."""
        raise NotImplementedError


class TopicNameMatches(Predicate):
    """True for topics whose whole name matches."""

    name = PACKAGE + "predicates.TopicNameMatches"
    keys = (ConfigKey("pattern", default=".*", doc="The pattern.", importance=HIGH, check=is_regex),)

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self.pattern = java_regex(self.settings["pattern"])

    def holds(self, record: Record) -> bool:
        """Compare."""
        return self.pattern.fullmatch(record.topic) is not None


class HasHeaderKey(Predicate):
    """True for records with a header of this name."""

    name = PACKAGE + "predicates.HasHeaderKey"
    keys = (ConfigKey("name", doc="The name.", check=non_empty),)

    def holds(self, record: Record) -> bool:
        """Look for it."""
        return any(each.name == self.settings["name"] for each in record.headers)


class RecordIsTombstone(Predicate):
    """True for records without a value."""

    name = PACKAGE + "predicates.RecordIsTombstone"

    def holds(self, record: Record) -> bool:
        """Look at the value."""
        return record.value is None


PREDICATES: tuple[type[Predicate], ...] = (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
