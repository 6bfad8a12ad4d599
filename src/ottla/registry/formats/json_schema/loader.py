"""Loads a schema of drafts 4 to 7 into nodes, keyword by keyword.

Keywords are consumed in a fixed order: `enum`, the combinations, `not`, `const`, `type` with the keywords of
that type, and then whatever keywords of arrays, objects, numbers and strings are left. Two results or more
are an `allOf`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.registry.formats.json_schema.model import Node
from ottla.registry.formats.json_schema.resolver import Resolver
from ottla.registry.formats.json_text import Json, write_json
from ottla.registry.formats.limits import MAX_DEPTH, InvalidSchema

ARRAY = frozenset({"items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"})
OBJECT = frozenset(
    {
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "dependencies",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
    }
)
NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
STRING = frozenset({"minLength", "maxLength", "pattern", "format"})
CONDITIONAL = frozenset({"if", "then", "else"})
_FORMATS_4 = frozenset({"date-time", "uri", "email", "ipv4", "ipv6", "hostname"})
_FORMATS_6 = _FORMATS_4 | {"json-pointer", "uri-reference", "uri-template"}
_FORMATS_7 = _FORMATS_6 | {"date", "time", "regex", "relative-json-pointer"}
FORMATS = {4: _FORMATS_4, 6: _FORMATS_6, 7: _FORMATS_7}
"""The values of `format` that count, by draft."""
TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})


class LoaderBase:
    """Loads each object once, and follows references last, so that chains of them are no recursion."""

    def __init__(self, root: Json, references: Mapping[str, Json], id_keyword: str) -> None:
        self.resolver = Resolver(root, references, id_keyword)
        self._loaded: dict[int, Node] = {}
        self._pending: list[tuple[Node, str, dict[str, Json]]] = []
        self._depth = 0
        self._root = root

    def load_root(self) -> Node:
        """Load the whole schema, with everything that it refers to."""
        root = self.load(self._root)
        while self._pending:
            node, reference, user = self._pending.pop()
            found = self.resolver.find(reference, user)
            if found is None:
                node.kind = "external"
            else:
                node.inner = self.load(found)
        return root

    def load(self, schema: Json) -> Node:
        """Load one subschema."""
        if schema is True or schema is False:
            return Node("true" if schema else "false")
        if not isinstance(schema, dict):
            raise InvalidSchema(f"expected type: Boolean or JsonObject, found: {shorten(schema)}")
        if id(schema) in self._loaded:
            return self._loaded[id(schema)]
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidSchema(f"subschemas are nested deeper than {MAX_DEPTH} levels")
        node = self._loaded[id(schema)] = self.load_object(schema)
        if node.source is None:
            node.source = schema
        self._depth -= 1
        return node

    def load_object(self, schema: dict[str, Json]) -> Node:
        """Load a schema that is an object."""
        raise NotImplementedError

    def refer(self, reference: Json, user: dict[str, Json]) -> Node:
        """Return a node for a `$ref`; its target is loaded later."""
        if not isinstance(reference, str):
            raise InvalidSchema(f"$ref is not a string: {shorten(reference)}")
        node = Node("reference", reference=reference)
        self._pending.append((node, reference, user))
        return node


class Loader(LoaderBase):
    """Loads drafts 4, 6 and 7."""

    def __init__(self, root: Json, references: Mapping[str, Json], draft: int) -> None:
        super().__init__(root, references, "id" if draft == 4 else "$id")
        self._draft = draft
        self._array = ARRAY - {"contains"} if draft == 4 else ARRAY
        self._object = OBJECT - {"propertyNames"} if draft == 4 else OBJECT

    def load_object(self, schema: dict[str, Json]) -> Node:
        """Load a schema that is an object."""
        if "$ref" in schema:
            return self.refer(schema["$ref"], schema)
        left = dict(schema)
        found = self._combinations(left) + self._typed(left) + self._sniffed(left)
        if len(found) == 1:
            node = found[0]
        else:
            node = Node("combined", criterion="allOf", members=found) if found else Node("empty")
        self._common(node, left)
        return node

    def _common(self, node: Node, left: dict[str, Json]) -> None:
        for keyword, name in (
            ("id" if self._draft == 4 else "$id", "id"),
            ("title", "title"),
            ("description", "description"),
        ):
            if keyword in left:
                setattr(node, name, need(left.pop(keyword), str, keyword))
        if "default" in left:
            node.has_default, node.default = True, left.pop("default")
        node.extra = left

    def _combinations(self, left: dict[str, Json]) -> list[Node]:
        found = []
        if "enum" in left:
            found.append(Node("enum", values=need(left.pop("enum"), list, "enum")))
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in left:
                members = [self.load(each) for each in need(left.pop(criterion), list, criterion)]
                found.append(Node("combined", criterion=criterion, members=members))
        if "not" in left:
            found.append(Node("not", inner=self.load(left.pop("not"))))
        if "const" in left and self._draft != 4:
            found.append(Node("const", values=[left.pop("const")]))
        return found

    def _typed(self, left: dict[str, Json]) -> list[Node]:
        if "type" not in left:
            return []
        kind = left.pop("type")
        if isinstance(kind, str):
            return [self._of_type(kind, left, left)]
        source = dict(left)
        members = [self._of_type(each, source, left) for each in need(kind, list, "type")]
        return [Node("combined", criterion="anyOf", members=members)]

    def _of_type(self, kind: Json, source: dict[str, Json], left: dict[str, Json]) -> Node:
        """Build the node of a type from `source`, and consume its keywords from `left`."""
        if not isinstance(kind, str) or kind not in TYPES:
            raise InvalidSchema(f"unknown type: [{shorten(kind)}]")
        if kind in ("boolean", "null"):
            return Node(kind)
        if kind == "object":
            node = self._build(self._object, source, left, self._build_object)
        elif kind == "array":
            node = self._build(self._array, source, left, self._build_array)
        elif kind == "string":
            node = self._build(STRING, source, left, self._build_string)
        else:
            node = self._build(NUMBER, source, left, self._build_number)
            node.integer = kind == "integer"
        node.typed = True
        return node

    def _build(
        self, keywords: frozenset[str], source: dict[str, Json], left: dict[str, Json], how: object
    ) -> Node:
        node: Node = how({key: value for key, value in source.items() if key in keywords})  # type: ignore[operator]
        for keyword in keywords:
            left.pop(keyword, None)
        return node

    def _sniffed(self, left: dict[str, Json]) -> list[Node]:
        found = []
        for keywords, how in (
            (self._array, self._build_array),
            (self._object, self._build_object),
            (NUMBER, self._build_number),
            (STRING, self._build_string),
        ):
            if not keywords.isdisjoint(left):
                found.append(self._build(keywords, dict(left), left, how))
        if self._draft == 7 and not CONDITIONAL.isdisjoint(left):
            for keyword in CONDITIONAL & left.keys():
                self.load(left.pop(keyword))
            found.append(Node("conditional"))
        return found

    def _build_number(self, source: dict[str, Json]) -> Node:
        node = Node("number")
        for keyword, value in source.items():
            if keyword.startswith("exclusive") and isinstance(value, bool) and self._draft == 4:
                continue
            node.limits[keyword] = need_number(value, keyword)
        if node.limits.get("multipleOf") == 0:
            raise InvalidSchema("multipleOf should not be 0")
        return node

    def _build_string(self, source: dict[str, Json]) -> Node:
        node = Node("string")
        for keyword in ("minLength", "maxLength"):
            if keyword in source:
                node.limits[keyword] = need_integer(source[keyword], keyword)
        if "pattern" in source:
            node.pattern = need(source["pattern"], str, "pattern")
        if need(source.get("format", ""), str, "format") in FORMATS[self._draft]:
            node.limits["format"] = source["format"]  # not compared, but makes members of combinations differ
        return node

    def _build_object(self, source: dict[str, Json]) -> Node:
        node = Node("object")
        for keyword in ("minProperties", "maxProperties"):
            if keyword in source:
                node.limits[keyword] = need_integer(source[keyword], keyword)
        for name, schema in need(source.get("properties", {}), dict, "properties").items():
            node.properties[name] = self.load(schema)
        additional = source.get("additionalProperties", True)
        if isinstance(additional, bool):
            node.open = additional
        else:
            node.additional = self.load(additional)
        for name in need(source.get("required", []), list, "required"):
            node.required[need(name, str, "required")] = None
        for pattern, schema in need(source.get("patternProperties", {}), dict, "patternProperties").items():
            node.patterns[pattern] = self.load(schema)
        for name, wanted in need(source.get("dependencies", {}), dict, "dependencies").items():
            if isinstance(wanted, list):
                if wanted:
                    node.property_dependencies[name] = {need(each, str, "dependencies") for each in wanted}
            else:
                node.schema_dependencies[name] = self.load(wanted)
        if "propertyNames" in source:
            self.load(source["propertyNames"])
        return node

    def _build_array(self, source: dict[str, Json]) -> Node:
        node = Node("array")
        for keyword in ("minItems", "maxItems"):
            if keyword in source:
                node.limits[keyword] = need_integer(source[keyword], keyword)
        node.unique = need(source.get("uniqueItems", False), bool, "uniqueItems")
        additional = source.get("additionalItems", True)
        if isinstance(additional, bool):
            node.open = additional
        else:
            node.additional = self.load(additional)
        items = source.get("items")
        if isinstance(items, list):
            node.items = [self.load(each) for each in items]
        elif "items" in source:
            node.all_items = self.load(items)
            node.open = True  # with one schema for all items, there are no additional ones
        if "contains" in source:
            self.load(source["contains"])
        return node


def need(value: Json, kind: type, keyword: str) -> Json:
    """Return the value if it is of the kind that the keyword needs."""
    if not isinstance(value, kind):
        raise InvalidSchema(f"{keyword}: expected type: {kind.__name__}, found: {shorten(value)}")
    return value


def need_number(value: Json, keyword: str) -> Json:
    """Return the value if it is a number."""
    if value is None or isinstance(value, bool | str | dict | list):
        raise InvalidSchema(f"{keyword}: expected type: number, found: {shorten(value)}")
    return value


def need_integer(value: Json, keyword: str) -> int:
    """Return the value if it is an integer, written without a fraction."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSchema(f"{keyword}: expected type: integer, found: {shorten(value)}")
    return value


def shorten(value: Json) -> str:
    """Write a value for a message, no longer than a line."""
    text = write_json(value)
    return text if len(text) <= 80 else text[:77] + "..."
