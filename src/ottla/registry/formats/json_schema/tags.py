"""Finds the objects and properties of a JSON Schema that can have tags, by Confluent's paths.

A path is like `object.address.object.street`, `object.list.array.object.name` or
`object.definitions.x.object.y`. Members of combinations are numbered (`oneof.0`) in an order that does not
depend on the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.registry.formats.json_schema.model import Node
from ottla.registry.formats.json_text import Json, write_json
from ottla.registry.formats.parsed import Entity


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
