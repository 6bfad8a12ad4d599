"""Refuses Avro data that would end the process that decodes it, before fastavro sees it.

Problem: fastavro decodes with recursion in C, without a limit. A few thousand bytes of a type that contains
itself overflow the stack, which kills the process: a consumer, the console, a task of Spark. And an array of
values without bytes, such as null, may claim a billion of them in five bytes. And a decimal takes time that
grows with the square of its length: one of a megabyte more than a minute.

Solution: such types are rare, and decimals in records of more than 100 KB are, too. Such data is walked
through first, without recursion.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.registry.formats.avro.model import AvroType, Field, walk
from ottla.registry.serdes.errors import SerdeError

MAX_LEVELS = 500
"""Deepest nesting; fastavro needs about 5 KB of the stack for each level."""
MAX_EMPTY_ITEMS = 1_000_000
"""Most items without bytes in all arrays of a record."""
MAX_UNCHECKED_BYTES = 100_000
"""Decimals in shorter data take less than a second."""
MAX_DECIMAL_BYTES = 10_000
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_BLOCKS = 0
_Waiting = list[tuple[AvroType, int, int]]
"""Types, their depth, and how many values of them follow; with `_BLOCKS`, the blocks of an array or a map."""


class _Malformed(Exception):
    """The data ends too early, or makes no sense: fastavro says what is wrong."""


class AvroBounds:
    """Checks the data of one schema."""

    def __init__(self, root: AvroType) -> None:
        types = list(walk(root))
        self._root = root
        self._without_bytes = _without_bytes(types)
        self._entries = {
            id(each): AvroType(
                "record", fields=[Field("key", AvroType("string")), Field("value", each.items)]
            )
            for each in types
            if each.kind == "map" and each.items is not None
        }
        self._levels_per_byte = _most_records_in_records(types)
        """None: endless, since a record has itself as a field."""
        self._is_recursive = self._levels_per_byte is None or _has_cycle(types)
        self._has_items_without_bytes = any(self._counts_nothing(each) for each in types)

        self._decimals = {id(each) for each in types if _is_decimal(each)}

    def _counts_nothing(self, node: AvroType) -> bool:
        return node.kind == "array" and id(node.items) in self._without_bytes

    def check(self, data: bytes) -> None:
        """Raise SerdeError if the data is nested too deeply, or claims too many items."""
        levels = self._levels_per_byte
        may_be_deep = self._is_recursive and (levels is None or len(data) * levels > MAX_LEVELS)
        may_be_slow = bool(self._decimals) and len(data) > MAX_UNCHECKED_BYTES
        if may_be_deep or may_be_slow or self._has_items_without_bytes:
            try:
                self._walk(data)
            except (_Malformed, IndexError):
                return

    def _walk(self, data: bytes) -> None:
        at = without_bytes = 0
        waiting: _Waiting = [(self._root, 0, 1)]
        while waiting:
            node, depth, count = waiting.pop()
            if depth > MAX_LEVELS:
                raise SerdeError(f"the Avro data is nested more than {MAX_LEVELS} levels deep")
            if count == _BLOCKS:
                items, at = _block_head(data, at)
                if not items:
                    continue
                waiting.append((node, depth, _BLOCKS))
                if self._counts_nothing(node):
                    without_bytes += items
                    if without_bytes > MAX_EMPTY_ITEMS:
                        raise SerdeError(f"the Avro data claims {without_bytes} items without bytes")
                elif items > len(data) - at:
                    raise _Malformed
                else:
                    item = self._entries.get(id(node), node.items)
                    assert item is not None
                    waiting.append((item, depth + 1, items))
                continue
            if count > 1:
                waiting.append((node, depth, count - 1))
            kind = node.kind
            if kind == "record":
                waiting.extend((each.type, depth + 1, 1) for each in reversed(node.fields))
            elif kind in ("array", "map"):
                waiting.append((node, depth, _BLOCKS))
            elif kind == "union":
                index, at = _long(data, at)
                if not 0 <= index < len(node.branches):
                    raise _Malformed
                waiting.append((node.branches[index], depth, 1))
            elif kind in ("string", "bytes"):
                length, at = _long(data, at)
                if not 0 <= length <= len(data) - at:
                    raise _Malformed
                self._check_decimal(node, length)
                at += length
            elif kind in ("int", "long", "enum"):
                _, at = _long(data, at)
            elif kind == "fixed":
                self._check_decimal(node, node.size)
                at += node.size
            else:
                at += _SIZES[kind]

    def _check_decimal(self, node: AvroType, length: int) -> None:
        if length > MAX_DECIMAL_BYTES and id(node) in self._decimals:
            raise SerdeError(f"a decimal in the Avro data has {length} bytes, more than {MAX_DECIMAL_BYTES}")


def _block_head(data: bytes, at: int) -> tuple[int, int]:
    """Return how many items the next block of an array or a map has, and the position of the first."""
    count, at = _long(data, at)
    if count < 0:
        _, at = _long(data, at)
    return abs(count), at


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    number = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise _Malformed


def _without_bytes(types: Sequence[AvroType]) -> set[int]:
    """Return the types whose values have no bytes: null, and records of nothing else."""
    found: set[int] = set()
    while True:
        more = {
            id(each)
            for each in types
            if each.kind == "null"
            or (each.kind == "fixed" and each.size == 0)
            or (each.kind == "record" and all(id(field.type) in found for field in each.fields))
        }
        if more == found:
            return found
        found = more


def _most_records_in_records(types: Sequence[AvroType]) -> int | None:
    """Return how many records are fields of one another at most; None if one is a field of itself."""
    levels = {id(each): 1 for each in types if each.kind == "record"}
    for _ in range(MAX_LEVELS):
        changed = False
        for each in types:
            inner = max((levels.get(id(field.type), 0) for field in each.fields), default=0)
            if each.kind == "record" and levels[id(each)] < inner + 1:
                levels[id(each)] = inner + 1
                changed = True
        if not changed:
            return max(levels.values(), default=1)
    return None


def _is_decimal(node: AvroType) -> bool:
    return node.kind in ("bytes", "fixed") and node.props.get("logicalType") == "decimal"


def _has_cycle(types: Sequence[AvroType]) -> bool:
    """Return whether a type contains itself, however far within."""
    left = {id(each): each for each in types}
    while left:
        leaves = [
            key
            for key, each in left.items()
            if not any(
                id(inner) in left
                for inner in (*(field.type for field in each.fields), *each.branches, each.items)
            )
        ]
        if not leaves:
            return True
        for key in leaves:
            del left[key]
    return False
