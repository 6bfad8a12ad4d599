"""Compares two JSON Schemas: is everything that was valid under the old one valid under the new one?

The rules are Confluent's, which look at one keyword after the other, not at the sets of valid documents. A
pair of nodes is compared once; a pair that is being compared further up counts as compatible. Since that may
turn out wrong for a schema that refers to itself, the comparison is repeated with what was found, until
nothing new is found.
"""

from __future__ import annotations

from collections.abc import Generator
from fractions import Fraction

from ottla.registry.formats.json_schema.array_comparison import compare_arrays
from ottla.registry.formats.json_schema.combination_comparison import compare_combinations
from ottla.registry.formats.json_schema.differences import (
    COMPATIBLE,
    COMPATIBLE_LENIENT,
    Difference,
    Differences,
    Found,
    Pair,
    Steps,
    Walk,
    compare_limit,
)
from ottla.registry.formats.json_schema.model import Node
from ottla.registry.formats.json_schema.object_comparison import compare_objects
from ottla.registry.formats.json_text import Json, write_json
from ottla.registry.formats.limits import Budget, TooComplex
from ottla.registry.formats.trampoline import run

_MAX_PASSES = 20


def differences(original: Node, update: Node, compatible: frozenset[str] = COMPATIBLE) -> Found:
    """Return what differs; the update is backward compatible if all of it is in `compatible`."""
    seed: dict[tuple[int, int], Found] = {}
    budget = Budget()
    for _ in range(_MAX_PASSES):
        comparison = Comparison(compatible, seed, budget)
        root: Pair = (original, update)
        found = run(comparison.start, root)
        incompatible = comparison.incompatible_pairs()
        if not comparison.assumed or incompatible.keys() == seed.keys():
            return found
        seed = incompatible
    raise TooComplex("the schemas refer to themselves in too many ways")


def messages(original: Node, update: Node, words: tuple[str, str], *, lenient: bool = False) -> list[str]:
    """Return Confluent's messages for what is incompatible; `words` name the update and the original."""
    compatible = COMPATIBLE_LENIENT if lenient else COMPATIBLE
    try:
        found = differences(original, update, compatible)
    except TooComplex as error:
        return [f"Unexpected exception during compatibility check: {error}"]
    return [each.message(*words) for each in found if each.type not in compatible]


class Comparison:
    """One pass over two schemas."""

    def __init__(
        self, compatible: frozenset[str], seed: dict[tuple[int, int], Found], budget: Budget
    ) -> None:
        self.compatible = compatible
        self.assumed = False
        self._seed = seed
        self._budget = budget
        self._known: dict[tuple[int, int], Found] = {}
        self._open: set[tuple[int, int]] = set()

    def incompatible_pairs(self) -> dict[tuple[int, int], Found]:
        """Return the pairs that this pass found to be incompatible."""
        return {key: found for key, found in self._known.items() if not self.fits(found)}

    def fits(self, found: Found) -> bool:
        """Return whether all differences are compatible."""
        return all(each.type in self.compatible for each in found)

    def start(self, pair: Pair) -> Found | Steps:
        """Return what is known of a pair, or the steps that compare it; paths begin at the pair."""
        original, update = pair
        if original is None or update is None:
            if original is update:
                return ()
            return (Difference("SCHEMA_ADDED" if original is None else "SCHEMA_REMOVED"),)
        original, update = _target(original), _target(update)
        key = (id(original), id(update))
        if key in self._known:
            return self._known[key]
        if key in self._open:
            if key in self._seed:
                return self._seed[key]
            self.assumed = True
            return ()
        self._budget.count()
        self._open.add(key)
        return self._compare(key, original, update)

    def _compare(self, key: tuple[int, int], original: Node, update: Node) -> Steps:
        out = Differences()
        yield from self._compare_kinds(out, original, update)
        found = self._known[key] = tuple(out.found)
        self._open.discard(key)
        return found

    def _compare_kinds(self, out: Differences, original: Node, update: Node) -> Walk:
        if (original.kind == "combined") != (update.kind == "combined"):
            settled = yield from self._one_member(out, original, update)
            if settled:
                return
        if original.kind != update.kind:
            if original.kind == "false" or update.is_empty:
                return
            if original.extra.get("connect.type") == update.extra.get("connect.type") == "bytes":
                return
            out.add("TYPE_CHANGED")
            return
        for name in ("id", "title", "description"):
            if getattr(original, name) != getattr(update, name):
                out.add(f"{name.upper()}_CHANGED")
        if original.has_default != update.has_default or original.default != update.default:
            out.add("DEFAULT_CHANGED")
        yield from self._compare_contents(out, original, update)

    def _compare_contents(self, out: Differences, original: Node, update: Node) -> Walk:
        kind = original.kind
        if kind == "string":
            _compare_strings(out, original, update)
        elif kind == "number":
            _compare_numbers(out, original, update)
        elif kind in ("enum", "const"):
            _compare_values(out, original, update)
        elif kind == "combined":
            yield from compare_combinations(self, out, original, update)
        elif kind == "not":
            kept = self.fits((yield update.inner, original.inner))
            out.add("NOT_TYPE_NARROWED" if kept else "NOT_TYPE_EXTENDED", "not")
        elif kind == "object":
            yield from compare_objects(self, out, original, update)
        elif kind == "array":
            yield from compare_arrays(self, out, original, update)
        elif kind == "external" and original.reference != update.reference:
            out.add("TYPE_CHANGED")

    def _one_member(self, out: Differences, original: Node, update: Node) -> Generator[Pair, Found, bool]:
        """Compare a combination with a plain schema; return whether one of its members settles it."""
        if update.kind == "combined":
            pairs = [(original, member) for member in update.members]
            extra = "SUM_TYPE_EXTENDED" if update.criterion in ("anyOf", "oneOf") else ""
        else:
            pairs = [(member, update) for member in original.members]
            extra = "PRODUCT_TYPE_NARROWED" if original.criterion == "allOf" else ""
        if len(pairs) != 1 and not extra:
            return False
        for left, right in pairs:
            found = yield left, right
            if self.fits(found):
                out.extend(found)
                if len(pairs) > 1:
                    out.add(extra)
                return True
        return False


def _target(node: Node) -> Node:
    """Follow references; a reference to nothing but references is left as it is."""
    seen = 0
    while node.kind == "reference" and node.inner is not None and seen < 1_000:
        node = node.inner
        seen += 1
    return node


def _compare_strings(out: Differences, original: Node, update: Node) -> None:
    for keyword, kind in (("maxLength", "MAX_LENGTH"), ("minLength", "MIN_LENGTH")):
        compare_limit(out, keyword, kind, original.limits.get(keyword), update.limits.get(keyword))
    if original.pattern != update.pattern:
        word = "ADDED" if original.pattern is None else "REMOVED" if update.pattern is None else "CHANGED"
        out.add(f"PATTERN_{word}", "pattern")


def _compare_numbers(out: Differences, original: Node, update: Node) -> None:
    for keyword, kind in (
        ("maximum", "MAXIMUM"),
        ("minimum", "MINIMUM"),
        ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
        ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ):
        compare_limit(out, keyword, kind, original.limits.get(keyword), update.limits.get(keyword))
    _compare_multiples(out, original.limits.get("multipleOf"), update.limits.get("multipleOf"))
    if original.integer != update.integer:
        out.add("TYPE_EXTENDED" if original.integer else "TYPE_NARROWED")


def _compare_multiples(out: Differences, original: Json, update: Json) -> None:
    if original is None or update is None:
        if original is not update:
            out.add("MULTIPLE_OF_ADDED" if original is None else "MULTIPLE_OF_REMOVED", "multipleOf")
        return
    before, after = Fraction(original), Fraction(update)
    if before == after:
        return
    if before and after % before == 0:
        word = "EXPANDED"
    elif after and before % after == 0:
        word = "REDUCED"
    else:
        word = "CHANGED"
    out.add(f"MULTIPLE_OF_{word}", "multipleOf")


def _compare_values(out: Differences, original: Node, update: Node) -> None:
    before = {write_json(value, sort=True) for value in original.values}
    after = {write_json(value, sort=True) for value in update.values}
    if before == after:
        return
    word = "CHANGED"
    if original.kind == "enum":
        word = "EXTENDED" if before < after else "NARROWED" if after < before else "CHANGED"
    out.add(f"ENUM_ARRAY_{word}", original.kind)
