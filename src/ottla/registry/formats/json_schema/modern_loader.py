"""Loads a schema of drafts 2019-09 and 2020-12 into nodes.

Each keyword gives a piece; pieces are joined one after the other. Pieces of the same kind become one node;
pieces of different kinds an `allOf` that its author did not write, which joining flattens again. The order of
joining matters where `type` is a list, and is that of a Java HashMap, as in Confluent's registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ottla.registry.formats.json_schema.loader import (
    TYPES,
    LoaderBase,
    need,
    need_integer,
    need_number,
    shorten,
)
from ottla.registry.formats.json_schema.model import Node, merge
from ottla.registry.formats.json_text import Json, java_hash_order
from ottla.registry.formats.limits import InvalidSchema

_MERGED = ("array", "number", "object", "string")
_STRING_LIMITS = ("minLength", "maxLength")
_ARRAY_LIMITS = ("minItems", "maxItems")
_OBJECT_LIMITS = ("minProperties", "maxProperties")
_NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_IGNORED = ("format", "readOnly", "writeOnly")
_KNOWN = frozenset(
    [
        "$schema",
        "$id",
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$comment",
        "$vocabulary",
        "$ref",
        "title",
        "description",
        "default",
        "deprecated",
        "properties",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "minContains",
        "maxContains",
        "then",
        "else",
    ]
)


class ModernLoader(LoaderBase):
    """Loads drafts 2019-09 and 2020-12."""

    def __init__(self, root: Json, references: Mapping[str, Json]) -> None:
        super().__init__(root, references, "$id")
        self._pieces: dict[str, Callable[[Json, dict[str, Json]], Node]] = {
            "$ref": self.refer,
            "type": lambda value, _: _types(value),
            "enum": lambda value, _: Node("enum", values=need(value, list, "enum")),
            "const": lambda value, _: Node("const", values=[value]),
            "not": lambda value, _: Node("not", inner=self.load(value)),
            "required": self._required,
            "additionalProperties": self._additional_properties,
            "propertyNames": lambda value, _: self._beside("object", value),
            "dependentRequired": self._dependent_required,
            "dependentSchemas": self._dependent_schemas,
            "prefixItems": self._prefix_items,
            "items": self._items,
            "contains": self._contains,
            "uniqueItems": lambda value, _: Node("array", unique=need(value, bool, "uniqueItems")),
            "pattern": lambda value, _: Node("string", pattern=need(value, str, "pattern")),
            "if": self._conditional,
        }
        for keywords, kind in (
            (_STRING_LIMITS, "string"),
            (_ARRAY_LIMITS, "array"),
            (_OBJECT_LIMITS, "object"),
        ):
            for keyword in keywords:
                self._pieces[keyword] = _integer_limit(kind, keyword)
        for keyword in _NUMBER_LIMITS:
            self._pieces[keyword] = _number_limit(keyword)
        for criterion in ("allOf", "anyOf", "oneOf"):
            self._pieces[criterion] = self._combination(criterion)
        for keyword in _IGNORED:
            self._pieces[keyword] = lambda _value, _schema: _generated_all([])

    def load_object(self, schema: dict[str, Json]) -> Node:
        """Load a schema that is an object."""
        keywords = [key for key in java_hash_order(schema) if key in self._pieces]
        pieces = [self._pieces[key](schema[key], schema) for key in keywords]
        product = _joined(pieces) or _generated_all([])
        properties = need(schema.get("properties", {}), dict, "properties")
        if properties:
            product = _join(
                product, Node("object", properties={k: self.load(v) for k, v in properties.items()})
            )
        patterns = need(schema.get("patternProperties", {}), dict, "patternProperties")
        if patterns:
            product = _join(product, Node("object", patterns={k: self.load(v) for k, v in patterns.items()}))
        for keyword, kind in (("unevaluatedItems", "array"), ("unevaluatedProperties", "object")):
            if keyword in schema:
                product = _join(product, Node(kind, unevaluated=self.load(schema[keyword])))
        for definition in need(schema.get("$defs", {}), dict, "$defs").values():
            self.load(definition)
        return self._common(_unwrapped(product), schema)

    def _common(self, node: Node, schema: dict[str, Json]) -> Node:
        if node.kind == "reference":  # a reference is shared with the queue of pending ones: keep the object
            return node
        node = replace(node)
        for keyword, name in (("$id", "id"), ("title", "title"), ("description", "description")):
            if keyword in schema:
                setattr(node, name, need(schema[keyword], str, keyword))
        if schema.get("default") is not None:
            node.has_default, node.default = True, schema["default"]
        node.source = schema
        extra = {k: v for k, v in schema.items() if k not in self._pieces and k not in _KNOWN}
        if extra:
            node.extra = extra
        return node

    def _required(self, value: Json, _schema: dict[str, Json]) -> Node:
        names = [need(name, str, "required") for name in need(value, list, "required")]
        return Node("object", required=dict.fromkeys(names))

    def _additional_properties(self, value: Json, _schema: dict[str, Json]) -> Node:
        inner = self.load(value)
        if inner.kind == "false":
            return Node("object", open=False)
        return Node("object") if inner.kind == "true" else Node("object", additional=inner)

    def _beside(self, kind: str, value: Json) -> Node:
        """Load a subschema that comparisons do not look at."""
        self.load(value)
        return Node(kind)

    def _dependent_required(self, value: Json, _schema: dict[str, Json]) -> Node:
        node = Node("object")
        for name, wanted in need(value, dict, "dependentRequired").items():
            names = {need(each, str, "dependentRequired") for each in need(wanted, list, "dependentRequired")}
            if names:
                node.property_dependencies[name] = names
        return node

    def _dependent_schemas(self, value: Json, _schema: dict[str, Json]) -> Node:
        schemas = need(value, dict, "dependentSchemas").items()
        return Node("object", schema_dependencies={name: self.load(each) for name, each in schemas})

    def _prefix_items(self, value: Json, _schema: dict[str, Json]) -> Node:
        return Node("array", items=[self.load(each) for each in need(value, list, "prefixItems")])

    def _items(self, value: Json, schema: dict[str, Json]) -> Node:
        inner = self.load(value)
        if inner.kind == "false":
            return Node("array", open=False)
        if inner.kind == "true":
            return Node("array")
        return (
            Node("array", additional=inner) if schema.get("prefixItems") else Node("array", all_items=inner)
        )

    def _contains(self, value: Json, schema: dict[str, Json]) -> Node:
        self.load(value)
        node = Node("array", limits={"minContains": need_number(schema.get("minContains", 1), "minContains")})
        if "maxContains" in schema:
            node.limits["maxContains"] = need_number(schema["maxContains"], "maxContains")
        return node

    def _conditional(self, _value: Json, schema: dict[str, Json]) -> Node:
        for keyword in ("if", "then", "else"):
            if keyword in schema:
                self.load(schema[keyword])
        return Node("conditional")

    def _combination(self, criterion: str) -> Callable[[Json, dict[str, Json]], Node]:
        def load(value: Json, _schema: dict[str, Json]) -> Node:
            members: list[Node] = []
            for each in need(value, list, criterion):
                members += _flat(self.load(each))
            return Node("combined", criterion=criterion, members=members)

        return load


def _types(value: Json) -> Node:
    if isinstance(value, str):
        return _type(value)
    members = [_type(each) for each in need(value, list, "type")]
    return Node("combined", criterion="anyOf", generated=True, members=members)


def _type(name: Json) -> Node:
    if not isinstance(name, str) or name not in TYPES:
        raise InvalidSchema(f"unknown type: [{shorten(name)}]")
    return Node("number", integer=True, typed=True) if name == "integer" else Node(name, typed=True)


def _integer_limit(kind: str, keyword: str) -> Callable[[Json, dict[str, Json]], Node]:
    return lambda value, _schema: Node(kind, limits={keyword: need_integer(value, keyword)})


def _number_limit(keyword: str) -> Callable[[Json, dict[str, Json]], Node]:
    return lambda value, _schema: Node("number", limits={keyword: need_number(value, keyword)})


def _generated_all(members: list[Node]) -> Node:
    return Node("combined", criterion="allOf", generated=True, members=members)


def _joined(pieces: list[Node]) -> Node | None:
    product = None
    for piece in pieces:
        product = piece if product is None else _join(product, piece)
    return product


def _join(left: Node, right: Node) -> Node:
    if left.kind == right.kind and left.kind in _MERGED:
        return merge(left, right)
    for any_of, other in ((left, right), (right, left)):
        if any_of.generated and any_of.criterion == "anyOf" and _has_kind(any_of, other.kind):
            members = _accumulated(any_of.members, [other])
            return Node("combined", criterion="anyOf", generated=True, members=members)
    return _generated_all(_accumulated([], _flat(left) + _flat(right)))


def _has_kind(combination: Node, kind: str) -> bool:
    return any(member.kind == kind for member in combination.members)


def _accumulated(members: list[Node], more: list[Node]) -> list[Node]:
    out = list(members)
    for node in more:
        for index, member in enumerate(out):
            if member.kind == node.kind and node.kind in _MERGED:
                out[index] = merge(member, node)
                break
        else:
            out.append(node)
    return out


def _flat(node: Node) -> list[Node]:
    return node.members if node.generated and node.criterion == "allOf" else [node]


def _unwrapped(product: Node) -> Node:
    if not (product.generated and product.criterion == "allOf"):
        return product
    if not product.members:
        return Node("empty")
    return product.members[0] if len(product.members) == 1 else product
