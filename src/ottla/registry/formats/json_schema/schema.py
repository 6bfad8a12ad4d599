"""A parsed JSON Schema: checks its text, loads it when it is compared, and knows its tags."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import cast

from ottla.registry.formats.json_schema.compatibility import messages
from ottla.registry.formats.json_schema.loader import Loader, LoaderBase
from ottla.registry.formats.json_schema.model import Node
from ottla.registry.formats.json_schema.modern_loader import ModernLoader
from ottla.registry.formats.json_schema.resolver import draft_of
from ottla.registry.formats.json_text import Json, read_json, write_json
from ottla.registry.formats.limits import InvalidSchema
from ottla.registry.formats.parsed import (
    TAGS,
    Entity,
    ParsedSchema,
    TagChanges,
    changed_tags,
    tags_in_json,
)
from ottla.registry.formats.patterns import check_patterns

_META_SCHEMAS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}


class JsonSchema:
    """A JSON Schema of draft 4, 6, 7, 2019-09 or 2020-12, with the schemas that it refers to."""

    schema_type = "JSON"

    def __init__(self, text: str, references: Mapping[str, str], *, validate: bool) -> None:
        self._json = read_json(text, exact=True)
        if not isinstance(self._json, dict | bool):
            raise InvalidSchema("Invalid JSON schema: expected an object or boolean at the root")
        self._references = dict(references)
        self._draft = draft_of(self._json.get("$schema")) if isinstance(self._json, dict) else 7
        self.canonical: str = write_json(self._json)
        if validate:
            self._validate(text)

    def _validate(self, text: str) -> None:
        check_patterns(self._json)
        node = self.node
        for name in node.properties:
            if name.startswith("$$"):
                raise InvalidSchema(f"#/properties/{name}: Field names cannot start with $$ prefix")
        if isinstance(self._json, dict):
            self._check_meta_schema({**read_json(text), "$schema": _META_SCHEMAS[self._draft]})

    def _check_meta_schema(self, schema: dict[str, Json]) -> None:
        import jsonschema_rs

        try:
            jsonschema_rs.meta.validate(schema)
        except jsonschema_rs.ValidationError as error:
            where = "/".join(str(part) for part in error.instance_path)
            raise InvalidSchema(f"#/{where}: {error.message[:300]}") from None
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise InvalidSchema(str(error)[:300]) from None

    @cached_property
    def node(self) -> Node:
        """Return the schema as nodes."""
        references = {name: read_json(text, exact=True) for name, text in self._references.items()}
        loader: LoaderBase
        if self._draft >= 2019:
            loader = ModernLoader(self._json, references)
        else:
            loader = Loader(self._json, references, self._draft)
        return loader.load_root()

    @property
    def name(self) -> str | None:
        """Return the title."""
        title = self._json.get("title") if isinstance(self._json, dict) else None
        return title if isinstance(title, str) else None

    @cached_property
    def normalized(self) -> str:
        """Return the text with the keys of all objects sorted."""
        return write_json(self._json, sort=True)

    def formatted(self, format_name: str) -> str:
        """Return the canonical text: there is no other format."""
        return self.canonical

    def incompatibilities(self, previous: ParsedSchema, words: tuple[str, str]) -> list[str]:
        """Return why this schema does not accept all that `previous` accepts."""
        return messages(cast("JsonSchema", previous).node, self.node, words)

    def inline_tags(self) -> list[str]:
        """Return all tags in the text."""
        return tags_in_json(self._json)

    def tagged_entities(self) -> dict[Entity, list[str]]:
        """Return the tags of objects and properties; paths are like `object.address.object.street`."""
        found: dict[Entity, list[str]] = {}
        _Entities(found).visit(self.node, "", in_field=False)
        return found

    def with_tags(self, add: TagChanges, remove: TagChanges) -> str:
        """Return the text with tags added and removed."""
        changed = copy.deepcopy(self._json)
        for entity in dict.fromkeys([*add, *remove]):
            node = _find_entity(changed, entity)
            tags = changed_tags(node.get(TAGS, []), add.get(entity, ()), remove.get(entity, ()))
            if tags:
                node[TAGS] = tags
            else:
                node.pop(TAGS, None)
        return write_json(changed)


class _Entities:
    def __init__(self, found: dict[Entity, list[str]]) -> None:
        self._found = found
        self._visited: set[str] = set()

    def visit(self, node: Node | None, scope: str, *, in_field: bool) -> None:
        if node is None:
            return
        if node.kind == "combined":
            for index, member in enumerate(node.members):
                self.visit(member, f"{scope}{node.criterion.lower()}.{index}.", in_field=False)
        elif node.kind == "array":
            self.visit(node.all_items, scope + "array.", in_field=False)
        elif node.kind == "not":
            self.visit(node.inner, scope + "not.", in_field=False)
        elif node.kind == "object":
            self._object(node, scope + "object", in_field=in_field)

    def _object(self, node: Node, path: str, *, in_field: bool) -> None:
        if path in self._visited:
            return
        self._visited.add(path)
        if not in_field:
            self._note(Entity(path, "sr_record"), node)
        for name, schema in node.properties.items():
            self._note(Entity(f"{path}.{name}", "sr_field"), schema)
            self.visit(schema, f"{path}.{name}.", in_field=True)

    def _note(self, entity: Entity, node: Node) -> None:
        tags = node.extra.get(TAGS)
        if isinstance(tags, list) and tags:
            self._found[entity] = list(dict.fromkeys(str(tag) for tag in tags))


def _find_entity(root: Json, entity: Entity) -> dict[str, Json]:
    """Return the object that a path like `object.address.object.street` names."""
    node = root
    parts = entity.path.split(".")
    position = 0
    while position < len(parts) and isinstance(node, dict):
        part = parts[position]
        position += 1
        if part == "object":
            if position < len(parts):
                keyword = parts[position] if parts[position] in ("definitions", "$defs") else "properties"
                position += keyword != "properties"
                node = (node.get(keyword) or {}).get(parts[position])
                position += 1
        elif part == "array":
            node = node.get("items")
        elif part == "not":
            node = node.get("not")
        elif part in ("allof", "anyof", "oneof"):
            members = node.get(part.replace("of", "Of"), [])
            index = int(parts[position]) if position < len(parts) and parts[position].isdecimal() else -1
            node = members[index] if 0 <= index < len(members) else None
            position += 1
        else:
            node = None
    if not isinstance(node, dict):
        raise InvalidSchema(f"No matching path '{entity.path}' found in the schema")
    return node
