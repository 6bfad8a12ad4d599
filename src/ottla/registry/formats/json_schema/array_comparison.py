"""Compares arrays: the schema of all items, the items by position, and what follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.registry.formats.json_schema.differences import Differences, Walk, compare_limit
from ottla.registry.formats.json_schema.model import Node
from ottla.registry.formats.json_schema.object_comparison import (
    compare_additional,
    compare_unevaluated,
    covering_items,
    is_open,
)

if TYPE_CHECKING:
    from ottla.registry.formats.json_schema.compatibility import Comparison

_LIMITS = (("maxItems", "MAX_ITEMS"), ("minItems", "MIN_ITEMS"))
_CONTAINS = (("maxContains", "MAX_CONTAINS"), ("minContains", "MIN_CONTAINS"))


def compare_arrays(comparison: Comparison, out: Differences, original: Node, update: Node) -> Walk:
    """Note the differences of two arrays."""
    out.extend((yield original.all_items, update.all_items), ("items",))
    yield from _compare_positions(comparison, out, original, update)
    yield from compare_additional(out, original, update, "additionalItems", "ADDITIONAL_ITEMS")
    yield from compare_unevaluated(out, original, update, "unevaluatedItems", "UNEVALUATED_ITEMS")
    for keyword, kind in _LIMITS:
        compare_limit(out, keyword, kind, original.limits.get(keyword), update.limits.get(keyword))
    if original.unique != update.unique:
        out.add("UNIQUE_ITEMS_REMOVED" if original.unique else "UNIQUE_ITEMS_ADDED", "uniqueItems")
    for keyword, kind in _CONTAINS:
        compare_limit(out, keyword, kind, original.limits.get(keyword), update.limits.get(keyword))


def _compare_positions(comparison: Comparison, out: Differences, original: Node, update: Node) -> Walk:
    before, after = original.items, update.items
    common = min(len(before), len(after))
    for index in range(common):
        out.extend((yield before[index], after[index]), (f"items/{index}",))
    for index in range(common, len(before)):
        yield from _removed(comparison, out, before[index], update, f"items/{index}")
    for index in range(common, len(after)):
        yield from _added(comparison, out, original, after[index], f"items/{index}")


def _removed(comparison: Comparison, out: Differences, before: Node, update: Node, path: str) -> Walk:
    covering = covering_items(update)
    if is_open(update):
        out.add("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", path)
    elif covering is not None:
        found = yield before, covering
        out.extend(found, (path,))
        word = "IS" if comparison.fits(found) else "NOT"
        out.add(f"ITEM_REMOVED_{word}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    elif before.kind == "false":
        out.add("ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
    else:
        out.add("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)


def _added(comparison: Comparison, out: Differences, original: Node, after: Node, path: str) -> Walk:
    covering = covering_items(original)
    if is_open(original):
        word = "ITEM_WITH_EMPTY_SCHEMA_ADDED" if after.is_empty else "ITEM_ADDED"
        out.add(f"{word}_TO_OPEN_CONTENT_MODEL", path)
    elif covering is not None:
        found = yield covering, after
        out.extend(found, (path,))
        word = "IS" if comparison.fits(found) else "NOT"
        out.add(f"ITEM_ADDED_{word}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    else:
        out.add("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", path)
