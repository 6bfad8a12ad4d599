"""Bounds the size, the depth and the work of schemas that strangers send.

Every bound ends in `InvalidSchema` (parsing) or `TooComplex` (comparing), never in a crash or in a request
that takes minutes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_SCHEMA_BYTES = 1 << 20
"""Longest schema text, in bytes of UTF-8, references not counted."""
MAX_CLOSURE_BYTES = 8 << 20
"""Longest schema together with everything it refers to."""
MAX_REFERENCES = 1_000
"""Most schemas in the closure of references."""
MAX_DEPTH = 100
"""Deepest nesting of types, of subschemas, of messages."""
MAX_JSON_DEPTH = 4 * MAX_DEPTH
"""Deepest nesting of JSON: one Avro record within another takes three levels."""
MAX_PAIRS = 100_000
"""Most pairs of types that one comparison looks at."""
MAX_COMPARE_DEPTH = 1_000
"""Deepest chain of pairs, references followed."""
MAX_DIFFERENCES = 200
"""Most differences that one comparison reports."""
MAX_MESSAGES_CHARS = 1 << 20
"""How long the messages about them are together."""
MAX_ERROR_CHARS = 2_000
"""The longest error about a schema, in characters: some errors repeat the schema."""
MAX_REPEATED_CHARS = 4 << 20
"""Longest text of all second definitions of Avro types, which are compared with the first ones."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class InvalidSchema(Exception):
    """Raised for a text that is no valid schema; the message says what is wrong."""


class TooComplex(Exception):
    """Raised when a comparison exceeds its budget."""


def check_size(text: str, references: Mapping[str, str]) -> None:
    """Refuse a schema, or a closure of references, that is too large."""
    size = _utf8_length(text)
    if size > MAX_SCHEMA_BYTES:
        raise InvalidSchema(f"it has {size} bytes, more than {MAX_SCHEMA_BYTES}")
    if len(references) > MAX_REFERENCES:
        raise InvalidSchema(f"it needs {len(references)} references, more than {MAX_REFERENCES}")
    for referenced in references.values():
        size += _utf8_length(referenced)
        if size > MAX_CLOSURE_BYTES:
            raise InvalidSchema(f"with its references it has more than {MAX_CLOSURE_BYTES} bytes")


def _utf8_length(text: str) -> int:
    if len(text) > MAX_CLOSURE_BYTES:
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidSchema("it holds half of a surrogate pair") from None


def json_depth(text: str) -> int:
    """Return how deep the brackets of a JSON text are nested, without parsing it."""
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        bracket = match.group()
        if bracket in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif bracket in "]}":
            depth -= 1
    return deepest


class Budget:
    """Counts the pairs of one comparison, and ends it when there are too many."""

    __slots__ = ("pairs",)

    def __init__(self) -> None:
        self.pairs = 0

    def count(self) -> None:
        """Begin to compare one more pair of types."""
        self.pairs += 1
        if self.pairs > MAX_PAIRS:
            raise TooComplex(f"the schemas need more than {MAX_PAIRS} comparisons")
