"""A parsed Avro schema: its texts, its tags, and what it can read."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, cast

from ottla.registry.formats.avro.compatibility import messages
from ottla.registry.formats.avro.model import NAMED, AvroType, walk
from ottla.registry.formats.avro.parser import AvroParser
from ottla.registry.formats.avro.writer import canonical_text, normalized_text
from ottla.registry.formats.json_text import Json, write_json
from ottla.registry.formats.limits import InvalidSchema
from ottla.registry.formats.parsed import (
    TAGS,
    Entity,
    ParsedSchema,
    TagChanges,
    changed_tags,
)


class AvroSchema:
    """An Avro schema with the schemas that it refers to."""

    schema_type = "AVRO"

    def __init__(self, text: str, references: Mapping[str, str], *, validate: bool) -> None:
        parser = AvroParser(strict=validate)
        self._known = [parser.parse(referenced).full_name for referenced in references.values()]
        self.type: AvroType = parser.parse(text)
        self.canonical: str = canonical_text(self.type, self._known)

    @property
    def name(self) -> str | None:
        """Return the full name of a named type, or the name of the primitive type."""
        return self.type.full_name

    @cached_property
    def normalized(self) -> str:
        """Return the text with properties in order, and without empty ones."""
        return normalized_text(self.type, self._known)

    def formatted(self, format_name: str) -> str:
        """Return the canonical text; with `resolved`, the schemas it refers to are within it."""
        return canonical_text(self.type) if format_name.lower() == "resolved" else self.canonical

    def incompatibilities(
        self, previous: ParsedSchema, words: tuple[str, str], *, lenient: bool = False
    ) -> list[str]:
        """Return why this schema cannot read what `previous` wrote."""
        return messages(self.type, cast("AvroSchema", previous).type, words)

    def top_level_fields(self) -> Collection[str]:
        """Return the fields of the record."""
        return [each.name for each in self.type.fields] if self.type.kind == "record" else []

    def tagged_entities(self) -> dict[Entity, list[str]]:
        """Return the tags of records and fields, by their full names."""
        found: dict[Entity, list[str]] = {}
        for node in walk(self.type):
            if node.kind != "record":
                continue
            _note(found, Entity(node.full_name, "sr_record"), node.props)
            for each in node.fields:
                _note(found, Entity(f"{node.full_name}.{each.name}", "sr_field"), each.props)
        return found

    def with_tags(self, add: TagChanges, remove: TagChanges) -> str:
        """Return the text with tags added and removed."""
        root = json.loads(self.canonical)
        parts = _parts(root)
        for entity in dict.fromkeys([*add, *remove]):
            if entity not in parts:
                raise InvalidSchema(f"No matching path '{entity.path}' found in the schema")
            node = parts[entity]
            tags = changed_tags(node.get(TAGS, []), add.get(entity, ()), remove.get(entity, ()))
            if tags:
                node[TAGS] = tags
            else:
                node.pop(TAGS, None)
        return write_json(root)


def _note(found: dict[Entity, list[str]], entity: Entity, props: dict[str, Json]) -> None:
    tags = props.get(TAGS)
    if isinstance(tags, list) and tags:
        found[entity] = list(dict.fromkeys(str(tag) for tag in tags))


def _parts(root: Json) -> dict[Entity, dict[str, Any]]:
    """Return the JSON object of every record and field of a canonical text."""
    found: dict[Entity, dict[str, Any]] = {}
    waiting: list[tuple[Json, str]] = [(root, "")]
    while waiting:
        node, namespace = waiting.pop()
        if isinstance(node, list):
            waiting.extend((item, namespace) for item in node)
        elif isinstance(node, dict):
            namespace = node.get("namespace", namespace)
            if node["type"] in ("record", "error"):
                name = f"{namespace}.{node['name']}" if namespace else node["name"]
                found[Entity(name, "sr_record")] = node
                for each in node["fields"]:
                    found[Entity(f"{name}.{each['name']}", "sr_field")] = each
                    waiting.append((each["type"], namespace))
            elif node["type"] not in NAMED:
                waiting.extend((node[key], namespace) for key in ("items", "values") if key in node)
    return found
