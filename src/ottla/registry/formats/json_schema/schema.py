"""A parsed JSON Schema: checks its text, loads it when it is compared, and knows its tags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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
)
from ottla.registry.formats.patterns import check_patterns


class EntityWalk:
    """Yields the entities of a schema with their nodes; `load` loads definitions, following no reference."""

    def __init__(self, load: Callable[[Json], Node]) -> None:
        self._load = load
        self._visited: set[str] = set()

    def entities(
        self, node: Node | None, scope: str = "", *, in_field: bool = False
    ) -> Iterator[tuple[Entity, Node]]:
        """Yield the entities of a node and of everything within it, but for what it refers to."""
        if node is None:
            return
        if node.kind == "combined":
            for index, member in enumerate(sorted(node.members, key=_order)):
                yield from self.entities(member, f"{scope}{node.criterion.lower()}.{index}.")
        elif node.kind == "array":
            yield from self.entities(node.all_items, scope + "array.")
        elif node.kind == "not":
            yield from self.entities(node.inner, scope + "not.")
        elif node.kind == "object" and scope + "object" not in self._visited:
            self._visited.add(scope + "object")
            yield from self._object(node, scope + "object", in_field=in_field)

    def _object(self, node: Node, path: str, *, in_field: bool) -> Iterator[tuple[Entity, Node]]:
        if not in_field:
            yield Entity(path, "sr_record"), node
        for name, schema in node.properties.items():
            yield Entity(f"{path}.{name}", "sr_field"), schema
            yield from self.entities(schema, f"{path}.{name}.", in_field=True)
        for keyword in ("definitions", "$defs"):
            definitions = node.extra.get(keyword)
            if isinstance(definitions, dict):
                for name, schema in definitions.items():
                    yield from self.entities(self._load(schema), f"{path}.{keyword}.{name}.")


def _order(node: Node) -> tuple[object, ...]:
    """Return the key by which Confluent sorts members: kind, title, description, default, contents."""
    kind = "reference" if node.kind == "external" else node.kind
    default = write_json(node.default) if node.has_default else None
    described = tuple((text is not None, text or "") for text in (node.title, node.description, default))
    names, required = sorted(node.properties), sorted(node.required)
    values = sorted(write_json(value) for value in node.values)
    contents = (len(names), names, len(required), required, len(values), values)
    return (kind, described, node.criterion.lower(), len(node.members), contents)


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
        _ = self.node
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
        return self._loader(references).load_root()

    def _loader(self, references: Mapping[str, Json]) -> LoaderBase:
        if self._draft >= 2019:
            return ModernLoader(self._json, references)
        return Loader(self._json, references, self._draft)

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

    def incompatibilities(
        self, previous: ParsedSchema, words: tuple[str, str], *, lenient: bool = False
    ) -> list[str]:
        """Return why this schema does not accept all that `previous` accepts."""
        before = cast("JsonSchema", previous)
        if before.normalized == self.normalized and before._references == self._references:
            return []  # the order of keys decides nothing
        return messages(before.node, self.node, words, lenient=lenient)

    def top_level_fields(self) -> Collection[str]:
        """Return the properties of the object."""
        properties = self._json.get("properties") if isinstance(self._json, dict) else None
        return list(properties) if isinstance(properties, dict) else []

    def tagged_entities(self) -> dict[Entity, list[str]]:
        """Return the tags of objects and properties; paths are like `object.address.object.street`."""
        found = {}
        for entity, node in self._entities():
            tags = node.extra.get(TAGS)
            if isinstance(tags, list) and tags:
                found[entity] = list(dict.fromkeys(str(tag) for tag in tags))
        return found

    def _entities(self) -> Iterator[tuple[Entity, Node]]:
        return EntityWalk(self._loader({}).load).entities(self.node)

    def with_tags(self, add: TagChanges, remove: TagChanges) -> str:
        """Return the text with tags added and removed."""
        changed = JsonSchema(self.canonical, self._references, validate=False)
        sources = {entity: node.source for entity, node in changed._entities()}
        for entity in dict.fromkeys([*add, *remove]):
            source = sources.get(entity)
            if not isinstance(source, dict):
                raise InvalidSchema(f"No matching path '{entity.path}' found in the schema")
            tags = changed_tags(source.get(TAGS, []), add.get(entity, ()), remove.get(entity, ()))
            if tags:
                source[TAGS] = tags
            else:
                source.pop(TAGS, None)
        return write_json(changed._json)
