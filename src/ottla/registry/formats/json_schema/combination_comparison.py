"""Compares `allOf`, `anyOf`, `oneOf`: each member of the shorter list needs one of its own in the longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.registry.formats.json_schema.differences import Difference, Differences, Walk
from ottla.registry.formats.json_schema.model import Node
from ottla.registry.formats.json_text import write_json

if TYPE_CHECKING:
    from ottla.registry.formats.json_schema.compatibility import Comparison


def compare_combinations(comparison: Comparison, out: Differences, original: Node, update: Node) -> Walk:
    """Note the differences of two combinations."""
    if original.criterion != update.criterion:
        extended = (
            update.criterion == "anyOf"
            or (len(original.members) == 1 and (len(update.members) == 1 or update.criterion == "oneOf"))
            or (len(update.members) == 1 and original.criterion == "allOf")
        )
        out.add("COMBINED_TYPE_EXTENDED" if extended else "COMBINED_TYPE_CHANGED")
        if not extended:
            return
    before, after = _distinct(original.members), _distinct(update.members)
    if len(before) < len(after):
        out.add("PRODUCT_TYPE_EXTENDED" if update.criterion == "allOf" else "SUM_TYPE_EXTENDED")
    elif len(before) > len(after):
        out.add("PRODUCT_TYPE_NARROWED" if original.criterion == "allOf" else "SUM_TYPE_NARROWED")
    edges: list[dict[int, tuple[Difference, ...]]] = []
    for left in before:
        fitting = {}
        for index, right in enumerate(after):
            found = yield left, right
            if comparison.fits(found):
                fitting[index] = found
        edges.append(fitting)
    partners = _match(edges, len(after))
    for left_index, right_index in partners.items():
        out.extend(edges[left_index][right_index], (f"{original.criterion}/{left_index}",))
    if len(partners) < min(len(before), len(after)):
        out.add("COMBINED_TYPE_SUBSCHEMAS_CHANGED")


def _match(edges: list[dict[int, tuple[Difference, ...]]], size: int) -> dict[int, int]:
    """Return a largest matching, from left to right indexes (augmenting paths, without recursion)."""
    owner: list[int | None] = [None] * size
    for start in range(len(edges)):
        came_from: dict[int, int] = {}
        queue = [start]
        end = None
        while queue and end is None:
            left = queue.pop()
            for right in edges[left]:
                if right in came_from:
                    continue
                came_from[right] = left
                holder = owner[right]
                if holder is None:
                    end = right
                    break
                queue.append(holder)
        while end is not None:
            left = came_from[end]
            previous = next((right for right, holder in enumerate(owner) if holder == left), None)
            owner[end] = left
            end = previous if left != start else None
    return {left: right for right, left in enumerate(owner) if left is not None}


def _distinct(members: list[Node]) -> list[Node]:
    """Return the members without those that are equal to an earlier one."""
    shapes = _Shapes()
    seen: dict[int, Node] = {}
    for member in members:
        seen.setdefault(shapes.number(member), member)
    return list(seen.values())


class _Shapes:
    """Gives nodes that describe the same schema the same number."""

    def __init__(self) -> None:
        self._of_node: dict[int, int] = {}
        self._of_shape: dict[object, int] = {}
        self._plain: dict[str, tuple[object, ...]] = {}
        for kind in ("empty", "object", "array", "number", "string"):
            self._plain[kind] = self._shape(Node(kind))[-2:]

    def number(self, node: Node | None) -> int:
        if node is None:
            return -1
        if id(node) not in self._of_node:
            self._of_node[id(node)] = self._of_shape.setdefault(self._shape(node), len(self._of_shape))
        return self._of_node[id(node)]

    def _numbers(self, nodes: dict[str, Node]) -> tuple[tuple[str, int], ...]:
        return tuple(sorted((name, self.number(each)) for name, each in nodes.items()))

    def _shape(self, node: Node) -> tuple[object, ...]:
        described = (node.id, node.title, node.description, node.has_default, node.default, node.extra)
        limits = (node.values, node.limits, node.pattern, node.integer, node.open, node.unique, node.typed)
        contents = (
            tuple(self.number(each) for each in node.members),
            self.number(node.inner) if node.kind == "not" else None,
            self._numbers(node.properties),
            self._numbers(node.patterns),
            tuple(sorted(node.required)),
            self.number(node.additional),
            self.number(node.unevaluated),
            tuple(sorted((name, tuple(sorted(each))) for name, each in node.property_dependencies.items())),
            self._numbers(node.schema_dependencies),
            self.number(node.all_items),
            tuple(self.number(each) for each in node.items),
        )
        text = write_json((*described, *limits), sort=True)
        if (text, contents) == self._plain.get(node.kind):
            return ("empty",)  # keywords that permit everything say as little as no keywords
        return node.kind, node.criterion, node.reference, text, contents
