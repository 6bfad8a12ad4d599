"""Compares objects: properties, required ones, dependencies and the content model.

The content model says what a property that is not listed may be: anything (open), what a schema says
(partially open), or nothing (closed). It decides whether a property may be added or removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.registry.formats.json_schema.differences import Differences, Walk, compare_limit
from ottla.registry.formats.json_schema.model import Node
from ottla.registry.formats.patterns import matches

if TYPE_CHECKING:
    from ottla.registry.formats.json_schema.compatibility import Comparison


def compare_objects(comparison: Comparison, out: Differences, original: Node, update: Node) -> Walk:
    """Note the differences of two objects."""
    _compare_required(out, original, update)
    for name in dict.fromkeys([*original.properties, *update.properties]):
        if name not in update.properties:
            yield from _removed(comparison, out, original, update, name)
        elif name not in original.properties:
            yield from _added(comparison, out, original, update, name)
        else:
            found = yield original.properties[name], update.properties[name]
            out.extend(found, ("properties", name))
    yield from _compare_dependencies(out, original, update)
    yield from compare_additional(out, original, update, "additionalProperties", "ADDITIONAL_PROPERTIES")
    yield from compare_unevaluated(out, original, update, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")
    for keyword, kind in (("maxProperties", "MAX_PROPERTIES"), ("minProperties", "MIN_PROPERTIES")):
        compare_limit(out, keyword, kind, original.limits.get(keyword), update.limits.get(keyword))


def is_open(node: Node) -> bool:
    """Return whether properties or items that are not listed may be anything."""
    if not node.open or node.additional is not None or node.patterns:
        return False
    return node.unevaluated is None or node.unevaluated.is_empty


def _covering(node: Node, name: str) -> Node | None:
    """Return the schema for a property that is not listed, in a partially open content model."""
    for pattern, schema in node.patterns.items():
        if matches(pattern, name):
            return schema
    return covering_items(node)


def covering_items(node: Node) -> Node | None:
    """Return the schema for whatever is not listed, in a partially open content model."""
    if node.additional is not None:
        return node.additional
    unevaluated = node.unevaluated
    if node.open and unevaluated is not None and unevaluated.kind != "false" and not unevaluated.is_empty:
        return unevaluated
    return None


def _removed(comparison: Comparison, out: Differences, original: Node, update: Node, name: str) -> Walk:
    path = ("properties", name)
    before = original.properties[name]
    if is_open(update):
        out.add("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", *path)
        return
    covering = _covering(update, name)
    if covering is not None:
        found = yield before, covering
        out.extend(found, path)
        word = "IS" if comparison.fits(found) else "NOT"
        out.add(f"PROPERTY_REMOVED_{word}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", *path)
    elif before.kind == "false":
        out.add("PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", *path)
    else:
        out.add("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", *path)


def _added(comparison: Comparison, out: Differences, original: Node, update: Node, name: str) -> Walk:
    path = ("properties", name)
    after = update.properties[name]
    kind = "OPTIONAL_PROPERTY_ADDED"
    if name in update.required:
        kind = "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED" if after.has_default else "REQUIRED_PROPERTY_ADDED"
    if is_open(original):
        if after.is_empty:
            out.add("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", *path)
        else:
            out.add(f"{kind}_TO_OPEN_CONTENT_MODEL", *path)
        return
    covering = _covering(original, name)
    if covering is not None:
        found = yield covering, after
        out.extend(found, path)
        word = "IS" if comparison.fits(found) else "NOT"
        out.add(f"PROPERTY_ADDED_{word}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", *path)
    out.add(f"{kind}_TO_UNOPEN_CONTENT_MODEL", *path)


def _compare_required(out: Differences, original: Node, update: Node) -> None:
    for name in original.properties:
        if name not in update.properties or (name in original.required) == (name in update.required):
            continue
        if name in original.required:
            kind = "REQUIRED_ATTRIBUTE_REMOVED"
        elif update.properties[name].has_default:
            kind = "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED"
        else:
            kind = "REQUIRED_ATTRIBUTE_ADDED"
        out.add(kind, "required", name)


def _compare_dependencies(out: Differences, original: Node, update: Node) -> Walk:
    for name in dict.fromkeys([*original.property_dependencies, *update.property_dependencies]):
        before, after = original.property_dependencies.get(name), update.property_dependencies.get(name)
        if after is None:
            word = "REMOVED"
        elif before is None:
            word = "ADDED"
        elif before == after:
            continue
        else:
            word = "EXTENDED" if before < after else "NARROWED" if after < before else "CHANGED"
        out.add(f"DEPENDENCY_ARRAY_{word}", "dependencies", name)
    for name in dict.fromkeys([*original.schema_dependencies, *update.schema_dependencies]):
        if name not in update.schema_dependencies:
            out.add("DEPENDENCY_SCHEMA_REMOVED", "dependencies", name)
        elif name not in original.schema_dependencies:
            out.add("DEPENDENCY_SCHEMA_ADDED", "dependencies", name)
        else:
            found = yield original.schema_dependencies[name], update.schema_dependencies[name]
            out.extend(found, ("dependencies", name))


def compare_additional(out: Differences, original: Node, update: Node, keyword: str, kind: str) -> Walk:
    """Compare what objects or arrays permit beside what they list."""
    if original.open != update.open:
        out.add(f"{kind}_ADDED" if update.open else f"{kind}_REMOVED", keyword)
    elif original.additional is None and update.additional is not None:
        out.add(f"{kind}_NARROWED", keyword)
    elif original.additional is not None and update.additional is None:
        out.add(f"{kind}_EXTENDED", keyword)
    else:
        out.extend((yield original.additional, update.additional), (keyword,))


def compare_unevaluated(out: Differences, original: Node, update: Node, keyword: str, kind: str) -> Walk:
    """Compare the schemas of unevaluated properties or items."""
    before, after = original.unevaluated, update.unevaluated
    if before is None and after is None:
        return
    was_false = before is not None and before.kind == "false"
    is_false = after is not None and after.kind == "false"
    was_open = before is None or before.is_empty
    now_open = after is None or after.is_empty
    if was_false != is_false:
        out.add(f"{kind}_ADDED" if was_false else f"{kind}_REMOVED", keyword)
    elif before is None or (was_open and not now_open):
        out.add(f"{kind}_NARROWED", keyword)
    elif after is None or (now_open and not was_open):
        out.add(f"{kind}_EXTENDED", keyword)
    else:
        out.extend((yield before, after), (keyword,))
