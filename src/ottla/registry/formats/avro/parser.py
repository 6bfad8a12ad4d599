"""Parses the JSON of an Avro schema, with the checks of Avro's Java library.

A name may be used before it is defined, as Avro 1.12 allows: such uses are placeholders until the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ottla.registry.formats.avro.defaults import valid_default
from ottla.registry.formats.avro.model import PRIMITIVES, AvroType, Field
from ottla.registry.formats.avro.writer import canonical_text
from ottla.registry.formats.json_text import Json, read_json, write_json
from ottla.registry.formats.limits import MAX_DEPTH, MAX_REPEATED_CHARS, InvalidSchema

_STRICT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_ENUM_RESERVED = _RESERVED | {"default"}
_FIELD_RESERVED = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_INT_LIMIT = 1 << 31


class AvroParser:
    """Parses one schema after the schemas that it refers to."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._names: dict[str, AvroType] = {}
        self._open: set[str] = set()
        self._depth = 0
        self._users: list[AvroType] = []  # types that may hold a placeholder
        self._defaults: list[Field] = []
        self._repeated_chars = 0

    def parse(self, text: str) -> AvroType:
        """Parse one text; the names in it are known to the texts that follow."""
        if not text.strip():
            raise InvalidSchema("Cannot parse <null> schema")
        root = self._type(read_json(text), None)
        root = self._resolve(root)
        if self._strict:
            for each in self._defaults:
                if not valid_default(each.type, each.default):
                    raise InvalidSchema(
                        f"Invalid default for field {each.name}: {write_json(each.default)}"
                        f" not a {canonical_text(each.type)}"
                    )
        self._defaults.clear()
        return root

    def _type(self, node: Json, namespace: str | None) -> AvroType:
        if isinstance(node, str):
            return self._find(node, namespace)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidSchema(f"types are nested deeper than {MAX_DEPTH} levels")
        try:
            if isinstance(node, list):
                return self._union(node, namespace)
            if not isinstance(node, dict):
                raise InvalidSchema(f"Schema not yet supported: {write_json(node)}")
            return self._object(node, namespace)
        finally:
            self._depth -= 1

    def _object(self, node: dict[str, Json], namespace: str | None) -> AvroType:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(f"No type: {write_json(node)}")
        if kind in PRIMITIVES:
            return AvroType(kind, props=_props(node, _RESERVED))
        if kind in ("record", "error"):
            return self._record(node, namespace)
        if kind == "enum":
            return self._enum(node, namespace)
        if kind == "fixed":
            return self._fixed(node, namespace)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in node:
                raise InvalidSchema(f"{kind.capitalize()} has no {inner} type: {write_json(node)}")
            out = AvroType(kind, items=self._type(node[inner], namespace), props=_props(node, _RESERVED))
            self._users.append(out)
            return out
        return self._find(kind, namespace)

    def _find(self, name: str, namespace: str | None) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full_name in _candidates(name, namespace):
            if full_name in self._names:
                return self._names[full_name]
        return AvroType("unresolved", name, namespace)

    def _union(self, node: list[Json], namespace: str | None) -> AvroType:
        branches = [self._type(branch, namespace) for branch in node]
        seen = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidSchema(f"Nested union: {write_json(node)}")
            name = (
                _candidates(branch.name, branch.namespace)[0]
                if branch.kind == "unresolved"
                else branch.full_name
            )
            if name in seen:
                raise InvalidSchema(f"Duplicate in union:{name}")
            seen.add(name)
        out = AvroType("union", branches=branches)
        self._users.append(out)
        return out

    def _header(self, kind: str, node: dict[str, Json], namespace: str | None) -> AvroType:
        name = node.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"No name in schema: {write_json(node)}")
        space = node.get("namespace")
        space = space if isinstance(space, str) else namespace
        if "." in name:
            space, _, name = name.rpartition(".")
        self._check_name(name)
        if space and self._strict:
            for part in space.split("."):
                if problem := _name_problem(part, strict=True):
                    raise InvalidSchema(f'Namespace part "{part}" is invalid: {problem}')
        if not space and name in PRIMITIVES:
            raise InvalidSchema(f"Schemas may not be named after primitives: {name}")
        doc = node.get("doc")
        out = AvroType(kind, name, space or None, doc if isinstance(doc, str) else None)
        out.aliases = tuple(dict.fromkeys(_candidates(alias, out.namespace)[0] for alias in _aliases(node)))
        return out

    def _check_name(self, name: str | None) -> None:
        if problem := _name_problem(name, strict=self._strict):
            raise InvalidSchema(problem)

    def _define(self, node: AvroType) -> AvroType:
        """Make the type known; a second definition must equal the first, which then stands for both."""
        earlier = self._names.setdefault(node.full_name, node)
        if earlier is node:
            return node
        if node.full_name in self._open:
            raise InvalidSchema(f"Can't redefine: {node.full_name}")
        again = canonical_text(node)
        self._repeated_chars += len(again)
        if self._repeated_chars > MAX_REPEATED_CHARS:
            raise InvalidSchema("types are defined again and again")
        if canonical_text(earlier) != again:
            raise InvalidSchema(f"Can't redefine: {node.full_name}")
        return earlier

    def _record(self, node: dict[str, Json], namespace: str | None) -> AvroType:
        out = self._header("record", node, namespace)
        out.is_error = node["type"] == "error"
        if not isinstance(node.get("fields"), list):
            raise InvalidSchema(f"Record has no fields: {write_json(node)}")
        full_name = out.full_name
        first = full_name not in self._names
        if first:
            self._names[full_name] = out
        elif full_name in self._open:
            raise InvalidSchema(f"Can't redefine: {full_name}")
        self._open.add(full_name)
        names: set[str] = set()
        for item in node["fields"]:
            each = self._field(item, out.namespace)
            if each.name in names:
                raise InvalidSchema(f"Duplicate field {each.name} in record {full_name}")
            names.add(each.name)
            out.fields.append(each)
        self._open.discard(full_name)
        out.props = _props(node, _RESERVED)
        self._users.append(out)
        return out if first else self._define(out)

    def _field(self, node: Json, namespace: str | None) -> Field:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise InvalidSchema(f"No field name: {write_json(node)}")
        if "type" not in node:
            raise InvalidSchema(f"No field type: {write_json(node)}")
        name, doc = node["name"], node.get("doc")
        self._check_name(name)
        out = Field(name, self._type(node["type"], namespace), doc if isinstance(doc, str) else None)
        if "order" in node:
            order = node["order"].lower() if isinstance(node["order"], str) else ""
            if order not in ("ascending", "descending", "ignore"):
                raise InvalidSchema(f"field {name} has an unknown order: {write_json(node['order'])}")
            out.order = order
        if "default" in node:
            out.has_default, out.default = True, node["default"]
            if out.type.kind in ("float", "double") and isinstance(out.default, str):
                out.default = _parse_double(name, out.default)
            self._defaults.append(out)
        out.aliases = tuple(dict.fromkeys(_aliases(node)))
        out.props = _props(node, _FIELD_RESERVED)
        return out

    def _enum(self, node: dict[str, Json], namespace: str | None) -> AvroType:
        out = self._header("enum", node, namespace)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchema(f"Enum has no symbols: {write_json(node)}")
        seen = set()
        for symbol in symbols:
            self._check_name(symbol if isinstance(symbol, str) else None)
            if symbol in seen:
                raise InvalidSchema(f"Duplicate enum symbol: {symbol}")
            seen.add(symbol)
        out.symbols = tuple(symbols)
        default = node.get("default")
        if isinstance(default, str):
            if default not in seen:
                raise InvalidSchema(
                    f"The Enum Default: {default} is not in the enum symbol set: [{', '.join(symbols)}]"
                )
            out.symbol_default = default
        out.props = _props(node, _ENUM_RESERVED)
        return self._define(out)

    def _fixed(self, node: dict[str, Json], namespace: str | None) -> AvroType:
        out = self._header("fixed", node, namespace)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size >= _INT_LIMIT:
            raise InvalidSchema(f"Invalid or no size: {write_json(node)}")
        if size < 0:
            raise InvalidSchema(f"Malformed data. Length is negative: {size}")
        out.size = size
        out.props = _props(node, _RESERVED)
        return self._define(out)

    def _resolve(self, root: AvroType) -> AvroType:
        for user in self._users:
            for each in user.fields:
                each.type = self._resolved(each.type)
            user.branches = [self._resolved(branch) for branch in user.branches]
            if user.items is not None:
                user.items = self._resolved(user.items)
        self._users.clear()
        return self._resolved(root)

    def _resolved(self, node: AvroType) -> AvroType:
        if node.kind != "unresolved":
            return node
        candidates = _candidates(node.name, node.namespace)
        for full_name in candidates:
            if full_name in self._names:
                return self._names[full_name]
        raise InvalidSchema(f"Undefined schema: {candidates[0]}")


def _candidates(name: str, namespace: str | None) -> list[str]:
    """Return the full names that a name may stand for, the first that exists wins."""
    if "." in name:
        return [name.lstrip(".")] if name.startswith(".") else [name]
    return [f"{namespace}.{name}", name] if namespace else [name]


def _name_problem(name: str | None, *, strict: bool) -> str | None:
    if name is None:
        return "Null name"
    if not name:
        return "Empty name"
    if strict:
        if _STRICT_NAME.match(name):
            return None
        first_is_good = bool(_STRICT_NAME.match(name[0]))
    else:
        if (name[0].isalpha() or name[0] == "_") and all(c.isalnum() or c == "_" for c in name):
            return None
        first_is_good = name[0].isalpha() or name[0] == "_"
    return f"Illegal character in: {name}" if first_is_good else f"Illegal initial character: {name}"


def _props(node: dict[str, Json], reserved: frozenset[str]) -> dict[str, Json]:
    return {key: value for key, value in node.items() if key not in reserved}


def _aliases(node: dict[str, Json]) -> Iterable[str]:
    if "aliases" not in node:
        return ()
    aliases = node["aliases"]
    if not isinstance(aliases, list):
        raise InvalidSchema(f"aliases not an array: {write_json(node)}")
    for alias in aliases:
        if not isinstance(alias, str):
            raise InvalidSchema(f"alias not a string: {write_json(alias)}")
    return aliases


def _parse_double(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidSchema(f"Invalid default for field {name}: {text} is no number") from None
