"""The types of an Avro schema, with names resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.registry.formats.json_text import Json

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})


@dataclass(slots=True, eq=False)
class Field:
    """One field of a record. `has_default` separates a default of null from no default."""

    name: str
    type: AvroType
    doc: str | None = None
    has_default: bool = False
    default: Json = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    props: dict[str, Json] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroType:
    """One type. A named type is one object, however often it is used: recursion is a cycle of objects."""

    # a primitive, "record", "enum", "fixed", "array", "map", "union", or, while parsing, "unresolved"
    kind: str
    name: str = ""
    namespace: str | None = None
    doc: str | None = None
    aliases: tuple[str, ...] = ()  # full names
    is_error: bool = False
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    symbol_default: str | None = None
    size: int = 0
    items: AvroType | None = None  # of an array; the values of a map
    branches: list[AvroType] = field(default_factory=list)
    props: dict[str, Json] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """Return the name with its namespace; the kind, for types without a name."""
        if not self.name:
            return self.kind
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


def walk(root: AvroType) -> Iterator[AvroType]:
    """Yield every type that is reachable, each once, outer types first."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        children = [each.type for each in node.fields] + node.branches
        if node.items is not None:
            children.append(node.items)
        waiting.extend(reversed(children))
