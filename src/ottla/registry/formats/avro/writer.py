"""Writes Avro schemas as text: as Avro's Java library prints them, which Confluent stores, or normalised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.registry.formats.avro.defaults import valid_default
from ottla.registry.formats.avro.model import NAMED, PRIMITIVES, AvroType, Field
from ottla.registry.formats.json_text import Json, utf16_key, write_json

_TYPE_WORDS = PRIMITIVES | NAMED | {"array", "map", "union", "error"}
_LOGICAL_BASES = {
    "decimal": {"bytes", "fixed"},
    "uuid": {"string", "fixed"},
    "date": {"int"},
    "time-millis": {"int"},
    "time-micros": {"long"},
    "timestamp-millis": {"long"},
    "timestamp-micros": {"long"},
    "timestamp-nanos": {"long"},
    "local-timestamp-millis": {"long"},
    "local-timestamp-micros": {"long"},
    "local-timestamp-nanos": {"long"},
    "duration": {"fixed"},
    "big-decimal": {"bytes"},
}


def canonical_text(root: AvroType, known: Iterable[str] = ()) -> str:
    """Write the schema as `Schema.toString` does; of types that are `known`, only the name is written."""
    return write_json(_Writer(set(known), normalize=False).type(root, None))


def normalized_text(root: AvroType, known: Iterable[str] = ()) -> str:
    """Write the schema so that two texts which differ only in order and in empty properties become one."""
    return write_json(_Writer(set(known), normalize=True).type(root, None))


class _Writer:
    def __init__(self, known: set[str], *, normalize: bool) -> None:
        self.known = known
        self.normalize = normalize

    def type(self, node: AvroType, namespace: str | None) -> Json:
        """Return the JSON of a type that is used within `namespace`."""
        if node.kind in NAMED:
            return self._named(node, namespace)
        if node.kind == "union":
            return [self.type(branch, namespace) for branch in node.branches]
        if node.kind in ("array", "map"):
            assert node.items is not None
            inner = "items" if node.kind == "array" else "values"
            return {"type": node.kind, inner: self.type(node.items, namespace), **self._props(node)}
        return {"type": node.kind, **self._props(node)} if node.props else node.kind

    def _named(self, node: AvroType, namespace: str | None) -> Json:
        full_name = node.full_name
        if full_name in self.known:
            return _qualified(full_name, namespace)
        self.known.add(full_name)
        out: dict[str, Any] = {"type": "error" if node.is_error and not self.normalize else node.kind}
        out["name"] = node.name
        if node.namespace and node.namespace != namespace:
            out["namespace"] = node.namespace
        elif not node.namespace and namespace:
            out["namespace"] = ""
        if node.doc is not None and (node.doc or not self.normalize):
            out["doc"] = node.doc
        if node.kind == "record":
            out["fields"] = [self._field(each, node.namespace) for each in node.fields]
        elif node.kind == "enum":
            out["symbols"] = list(node.symbols)
            if node.symbol_default is not None:
                out["default"] = node.symbol_default
        else:
            out["size"] = node.size
        out.update(self._props(node))
        if node.aliases:
            aliases = sorted(node.aliases, key=utf16_key) if self.normalize else node.aliases
            out["aliases"] = [_qualified(alias, node.namespace) for alias in aliases]
        return out

    def _field(self, each: Field, namespace: str | None) -> Json:
        out: dict[str, Any] = {"name": each.name, "type": self.type(each.type, namespace)}
        if each.doc is not None:
            out["doc"] = each.doc
        if each.has_default:
            out["default"] = _sorted(_typed(each.default, each.type)) if self.normalize else each.default
        if each.order != "ascending":
            out["order"] = each.order
        if each.aliases:
            out["aliases"] = sorted(each.aliases, key=utf16_key) if self.normalize else list(each.aliases)
        if self.normalize:
            out.update((key, _sorted(each.props[key])) for key in sorted(each.props, key=utf16_key))
        else:
            out.update(each.props)
        return out

    def _props(self, node: AvroType) -> dict[str, Json]:
        if not self.normalize:
            return node.props
        out = {}
        if has_logical_type(node):
            out["logicalType"] = node.props["logicalType"]
            if out["logicalType"] == "decimal":
                out["precision"] = node.props["precision"]
                if node.props.get("scale"):
                    out["scale"] = node.props["scale"]
        for key in sorted(node.props, key=utf16_key):
            out.setdefault(key, _sorted(node.props[key]))
        return out


def has_logical_type(node: AvroType) -> bool:
    """Return whether the type's logicalType is one of Avro's and fits the type."""
    name = node.props.get("logicalType")
    if not isinstance(name, str) or node.kind not in _LOGICAL_BASES.get(name, ()):
        return False
    if name == "decimal":
        precision, scale = node.props.get("precision", 0), node.props.get("scale", 0)
        return _is_int(precision) and precision > 0 and _is_int(scale) and 0 <= scale <= int(precision)
    if node.kind == "fixed":
        return node.size == {"uuid": 16, "duration": 12}.get(name, node.size)
    return True


def _is_int(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _qualified(full_name: str, namespace: str | None) -> str:
    space, _, name = full_name.rpartition(".")
    return name if space and space == namespace and name not in _TYPE_WORDS else full_name


def _typed(value: Json, node: AvroType) -> Json:
    """Return a default with its numbers as the type has them: a float's 1 is 1.0."""
    if node.kind in ("float", "double") and _is_int(value):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    if node.kind == "union":
        branch = next((each for each in node.branches if valid_default(each, value)), None)
        return _typed(value, branch) if branch is not None else value
    if node.kind == "array" and isinstance(value, list) and node.items is not None:
        return [_typed(item, node.items) for item in value]
    if node.kind == "map" and isinstance(value, dict) and node.items is not None:
        return {key: _typed(item, node.items) for key, item in value.items()}
    return value


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=utf16_key)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
