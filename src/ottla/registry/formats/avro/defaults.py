"""Checks the defaults of fields against their types."""

from __future__ import annotations

from ottla.registry.formats.avro.model import AvroType
from ottla.registry.formats.json_text import Json

_INT_LIMIT = 1 << 31
_LONG_LIMIT = 1 << 63


def valid_default(node: AvroType, value: Json) -> bool:
    """Return whether a default is a value of the type; a union's may be of any branch, as in Avro 1.12."""
    return _DefaultCheck().valid(node, value)


class _DefaultCheck:
    """Remembers what it has found out, since unions of records would else take exponential time."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}

    def valid(self, node: AvroType, value: Json) -> bool:
        kind = node.kind
        if kind in ("string", "bytes", "enum", "fixed"):
            return isinstance(value, str)
        if kind in ("int", "long"):
            limit = _INT_LIMIT if kind == "int" else _LONG_LIMIT
            return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        if kind in ("float", "double"):
            return isinstance(value, int | float) and not isinstance(value, bool)
        if kind == "boolean":
            return isinstance(value, bool)
        if kind == "null":
            return value is None
        key = (id(node), id(value))
        if key not in self._known:
            self._known[key] = self._valid_complex(node, value)
        return self._known[key]

    def _valid_complex(self, node: AvroType, value: Json) -> bool:
        if node.kind == "union":
            return any(self.valid(branch, value) for branch in node.branches)
        if node.kind == "array":
            return isinstance(value, list) and all(self.valid(_items(node), item) for item in value)
        if not isinstance(value, dict):
            return False
        if node.kind == "map":
            return all(self.valid(_items(node), item) for item in value.values())
        for each in node.fields:
            if each.name in value:
                if not self.valid(each.type, value[each.name]):
                    return False
            elif not each.has_default:
                return False
        return True


def _items(node: AvroType) -> AvroType:
    assert node.items is not None
    return node.items
