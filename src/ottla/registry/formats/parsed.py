"""What every parsed schema offers, whatever its format."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

SCHEMA_TYPES = ("JSON", "PROTOBUF", "AVRO")
TAGS = "confluent:tags"


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a version of another subject, under the name that the schema's text uses."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Entity:
    """A part of a schema that can have tags: a record (`sr_record`) or a field of one (`sr_field`)."""

    path: str
    kind: str


TagChanges = Mapping[Entity, Iterable[str]]


class ParsedSchema(Protocol):
    """A schema that is valid, with its names resolved."""

    @property
    def schema_type(self) -> str:
        """Return AVRO, JSON or PROTOBUF."""

    @property
    def canonical(self) -> str:
        """Return the text that is stored and returned, and that the schema's identity is computed from."""

    @property
    def normalized(self) -> str:
        """Return the text that is the same for schemas which differ only in order and spelling."""

    @property
    def name(self) -> str | None:
        """Return the full name of the record, or of the first message, or the title."""

    def formatted(self, format_name: str) -> str:
        """Return the text in another format; the canonical text, for formats that are not known."""

    def incompatibilities(
        self, previous: ParsedSchema, words: tuple[str, str], *, lenient: bool = False
    ) -> list[str]:
        """Return why this schema cannot read data of `previous`, a schema of the same type.

        `lenient` lets pass what Confluent's policy LENIENT does; only JSON Schema knows the difference.
        """

    def top_level_fields(self) -> Collection[str]:
        """Return the names of the fields of the record, the object or the messages of the file."""

    def tagged_entities(self) -> dict[Entity, list[str]]:
        """Return the tags of each record and field that has some."""

    def with_tags(self, add: TagChanges, remove: TagChanges) -> str:
        """Return the text with tags added and then removed."""


def changed_tags(present: Iterable[str], add: Iterable[str], remove: Iterable[str]) -> list[str]:
    """Return tags without duplicates, after adding and then removing some."""
    gone = set(remove)
    return [tag for tag in dict.fromkeys([*present, *add]) if tag not in gone]
