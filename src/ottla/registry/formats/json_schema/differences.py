"""The differences between two JSON Schemas: which are compatible, and Confluent's words for the others."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from ottla.registry.formats.json_schema.model import Node
from ottla.registry.formats.json_text import Json
from ottla.registry.formats.limits import MAX_DIFFERENCES

COMPATIBLE = frozenset(
    [
        "ID_CHANGED",
        "DESCRIPTION_CHANGED",
        "TITLE_CHANGED",
        "DEFAULT_CHANGED",
        "SCHEMA_REMOVED",
        "TYPE_EXTENDED",
        "MAX_LENGTH_INCREASED",
        "MAX_LENGTH_REMOVED",
        "MIN_LENGTH_DECREASED",
        "MIN_LENGTH_REMOVED",
        "PATTERN_REMOVED",
        "MAXIMUM_INCREASED",
        "MAXIMUM_REMOVED",
        "MINIMUM_DECREASED",
        "MINIMUM_REMOVED",
        "EXCLUSIVE_MAXIMUM_INCREASED",
        "EXCLUSIVE_MAXIMUM_REMOVED",
        "EXCLUSIVE_MINIMUM_DECREASED",
        "EXCLUSIVE_MINIMUM_REMOVED",
        "MULTIPLE_OF_REDUCED",
        "MULTIPLE_OF_REMOVED",
        "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED",
        "REQUIRED_ATTRIBUTE_REMOVED",
        "DEPENDENCY_ARRAY_NARROWED",
        "DEPENDENCY_ARRAY_REMOVED",
        "DEPENDENCY_SCHEMA_REMOVED",
        "MAX_PROPERTIES_INCREASED",
        "MAX_PROPERTIES_REMOVED",
        "MIN_PROPERTIES_DECREASED",
        "MIN_PROPERTIES_REMOVED",
        "ADDITIONAL_PROPERTIES_ADDED",
        "ADDITIONAL_PROPERTIES_EXTENDED",
        "UNEVALUATED_PROPERTIES_ADDED",
        "UNEVALUATED_PROPERTIES_EXTENDED",
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "MAX_ITEMS_INCREASED",
        "MAX_ITEMS_REMOVED",
        "MIN_ITEMS_DECREASED",
        "MIN_ITEMS_REMOVED",
        "MAX_CONTAINS_INCREASED",
        "MAX_CONTAINS_REMOVED",
        "MIN_CONTAINS_DECREASED",
        "MIN_CONTAINS_REMOVED",
        "UNIQUE_ITEMS_REMOVED",
        "ADDITIONAL_ITEMS_ADDED",
        "ADDITIONAL_ITEMS_EXTENDED",
        "UNEVALUATED_ITEMS_ADDED",
        "UNEVALUATED_ITEMS_EXTENDED",
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ENUM_ARRAY_EXTENDED",
        "COMBINED_TYPE_EXTENDED",
        "PRODUCT_TYPE_NARROWED",
        "SUM_TYPE_EXTENDED",
        "NOT_TYPE_NARROWED",
    ]
)

_LENIENT_ONLY = frozenset(
    [
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "UNEVALUATED_PROPERTIES_NARROWED",
        "UNEVALUATED_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ]
)
COMPATIBLE_LENIENT = COMPATIBLE | _LENIENT_ONLY
"""What Confluent's compatibility policy LENIENT lets pass as well."""

_TEXTS: tuple[tuple[str, str], ...] = (
    (
        "The keyword at path '{path}' in the {new} schema is not present in the {old} schema",
        """MAXIMUM_ADDED MINIMUM_ADDED EXCLUSIVE_MAXIMUM_ADDED EXCLUSIVE_MINIMUM_ADDED MULTIPLE_OF_ADDED
        MAX_LENGTH_ADDED MIN_LENGTH_ADDED PATTERN_ADDED REQUIRED_ATTRIBUTE_ADDED MAX_PROPERTIES_ADDED
        MIN_PROPERTIES_ADDED DEPENDENCY_ARRAY_ADDED DEPENDENCY_SCHEMA_ADDED MAX_ITEMS_ADDED MIN_ITEMS_ADDED
        MAX_CONTAINS_ADDED MIN_CONTAINS_ADDED UNIQUE_ITEMS_ADDED ADDITIONAL_ITEMS_REMOVED
        ADDITIONAL_PROPERTIES_REMOVED UNEVALUATED_PROPERTIES_REMOVED UNEVALUATED_ITEMS_REMOVED""",
    ),
    (
        "The value at path '{path}' in the {new} schema is more than its value in the {old} schema",
        """MIN_LENGTH_INCREASED MINIMUM_INCREASED EXCLUSIVE_MINIMUM_INCREASED MIN_PROPERTIES_INCREASED
        MULTIPLE_OF_EXPANDED MIN_ITEMS_INCREASED MIN_CONTAINS_INCREASED""",
    ),
    (
        "The value at path '{path}' in the {new} schema is less than its value in the {old} schema",
        """MAX_LENGTH_DECREASED MAXIMUM_DECREASED MAX_ITEMS_DECREASED MAX_CONTAINS_DECREASED
        EXCLUSIVE_MAXIMUM_DECREASED MAX_PROPERTIES_DECREASED""",
    ),
    (
        "The value at path '{path}' is different between the {new} and {old} schema",
        "PATTERN_CHANGED MULTIPLE_OF_CHANGED DEPENDENCY_ARRAY_CHANGED",
    ),
    (
        "An array or combined type at path '{path}' has fewer elements in the {new} schema "
        "than the {old} schema",
        """ADDITIONAL_ITEMS_NARROWED ENUM_ARRAY_NARROWED SUM_TYPE_NARROWED ADDITIONAL_PROPERTIES_NARROWED
        UNEVALUATED_PROPERTIES_NARROWED UNEVALUATED_ITEMS_NARROWED""",
    ),
    (
        "An array or combined type at path '{path}' has more elements in the {new} schema "
        "than the {old} schema",
        "DEPENDENCY_ARRAY_EXTENDED PRODUCT_TYPE_EXTENDED SUM_TYPE_EXTENDED NOT_TYPE_EXTENDED",
    ),
    (
        "A type at path '{path}' is different between the {new} schema and the {old} schema",
        "TYPE_CHANGED TYPE_NARROWED COMBINED_TYPE_CHANGED COMBINED_TYPE_SUBSCHEMAS_CHANGED "
        "ENUM_ARRAY_CHANGED",
    ),
    (
        "The {new} schema has an open content model and has a property or item at path "
        "'{path}' which is missing "
        "in the {old} schema",
        """REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL
        REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL
        OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL ITEM_ADDED_TO_OPEN_CONTENT_MODEL""",
    ),
    (
        "The {new} schema has an unopen content model and has a required property at path '{path}' which is "
        "missing in the {old} schema",
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
    ),
    (
        "The {new} has a closed content model and is missing a property or item present at "
        "path '{path}' in the "
        "{old} schema",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    (
        "A property or item is missing in the {new} schema but present at path '{path}' in "
        "the {old} schema and "
        "is not covered by its partially open content model",
        """PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL""",
    ),
    (
        "The {new} schema has a property or item at path '{path}' which is missing in the "
        "{old} schema and is not "
        "covered by its partially open content model",
        """PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
        ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL""",
    ),
)
_TEXT_OF = {kind: text for text, kinds in _TEXTS for kind in kinds.split()}


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, at a path below the pair of schemas that was compared."""

    type: str
    path: tuple[str, ...] = ()

    def below(self, prefix: tuple[str, ...]) -> Difference:
        """Return the same difference, seen from further up."""
        return Difference(self.type, prefix + self.path) if prefix else self

    @property
    def pointer(self) -> str:
        """Return the path as text."""
        return "#/" + "/".join(self.path)

    def message(self, new: str, old: str) -> str:
        """Return Confluent's text, with its mismatched quotes."""
        text = _TEXT_OF.get(self.type, "").format(path=self.pointer, new=new, old=old)
        return f'{{errorType:"{self.type}", description:"{text}\'}}'


Found = tuple[Difference, ...]
Pair = tuple[Node | None, Node | None]
Steps = Generator[Pair, Found, Found]
Walk = Generator[Pair, Found, None]
"""A part of a comparison: yields the pairs that it needs compared, and notes what it finds."""


class Differences:
    """Collects differences, up to a limit."""

    __slots__ = ("_compatible_left", "_incompatible_left", "found")

    def __init__(self) -> None:
        self.found: list[Difference] = []
        self._compatible_left = self._incompatible_left = MAX_DIFFERENCES

    def add(self, kind: str, *path: str) -> None:
        """Note one difference."""
        self._put(Difference(kind, path))

    def extend(self, differences: Iterable[Difference], prefix: tuple[str, ...] = ()) -> None:
        """Note the differences of a pair at `prefix`."""
        for each in differences:
            self._put(each.below(prefix))

    def _put(self, difference: Difference) -> None:
        if difference.type in COMPATIBLE:
            self._compatible_left -= 1
            if self._compatible_left < 0:
                return
        else:
            self._incompatible_left -= 1
            if self._incompatible_left < 0:
                return
        self.found.append(difference)


def compare_limit(out: Differences, keyword: str, kind: str, original: Json, update: Json) -> None:
    """Note whether a limit was added, removed, increased or decreased."""
    if original is None and update is not None:
        out.add(f"{kind}_ADDED", keyword)
    elif original is not None and update is None:
        out.add(f"{kind}_REMOVED", keyword)
    elif original is not None and update is not None:
        before, after = _number(original), _number(update)
        if before < after:
            out.add(f"{kind}_INCREASED", keyword)
        elif before > after:
            out.add(f"{kind}_DECREASED", keyword)


def _number(value: Json) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
