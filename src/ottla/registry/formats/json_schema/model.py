"""The nodes that a JSON Schema is loaded into for comparison.

A node has one kind, as in the library that Confluent compares with: `{"type": "string", "minimum": 1}` is
not one node but an `allOf` of a string and a number. Verdicts depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.registry.formats.json_text import Json


@dataclass(slots=True, eq=False)
class Node:
    """One schema. `kind` says which of the attributes apply."""

    kind: str
    # "empty", "true", "false", "string", "number", "boolean", "null", "const", "enum", "combined", "not",
    # "object", "array", "conditional", "reference", "external"
    id: Json = None
    title: Json = None
    description: Json = None
    has_default: bool = False
    default: Json = None
    source: Json = None  # the object that the node was loaded from
    extra: dict[str, Json] = field(default_factory=dict)  # keywords that no kind of node consumed

    typed: bool = False  # the schema names the type; else the keywords count only for values of this type
    limits: dict[str, Json] = field(default_factory=dict)  # maxLength, minimum, minItems, ...
    pattern: str | None = None
    integer: bool = False
    values: list[Json] = field(default_factory=list)  # of an enum or a const
    criterion: str = ""  # "allOf", "anyOf", "oneOf"
    generated: bool = False  # a combination that the schema's author did not write
    members: list[Node] = field(default_factory=list)
    inner: Node | None = None  # of "not"; the target of a reference
    reference: str = ""

    properties: dict[str, Node] = field(default_factory=dict)
    patterns: dict[str, Node] = field(default_factory=dict)
    required: dict[str, None] = field(default_factory=dict)
    open: bool = True  # additional properties or items are permitted
    additional: Node | None = None  # schema of additional properties or items
    unevaluated: Node | None = None  # schema of unevaluated properties or items
    property_dependencies: dict[str, set[str]] = field(default_factory=dict)
    schema_dependencies: dict[str, Node] = field(default_factory=dict)
    all_items: Node | None = None
    items: list[Node] = field(default_factory=list)
    unique: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether the node permits everything."""
        return self.kind in ("empty", "true")


def merge(left: Node, right: Node) -> Node:
    """Return a new node with the attributes of two nodes of the same kind; the right one wins."""
    out = Node(left.kind)
    for node in (left, right):
        for name in ("id", "title", "description", "pattern", "additional", "unevaluated", "all_items"):
            if getattr(node, name) is not None:
                setattr(out, name, getattr(node, name))
        if node.has_default:
            out.has_default, out.default = True, node.default
        for name in ("extra", "limits", "properties", "patterns", "required", "schema_dependencies"):
            getattr(out, name).update(getattr(node, name))
        for key, names in node.property_dependencies.items():
            out.property_dependencies[key] = out.property_dependencies.get(key, set()) | names
        out.items += node.items
        out.typed |= node.typed
        out.integer |= node.integer
        out.unique |= node.unique
        out.open &= node.open
    return out
