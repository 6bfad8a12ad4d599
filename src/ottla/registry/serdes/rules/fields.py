"""A field of a record, as rules about fields see it, and the tags that it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

PRIMITIVE = frozenset({"INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN", "NULL", "STRING", "BYTES"})


@dataclass(frozen=True, slots=True)
class Field:
    """One field with one value: of a list or map, one for each element."""

    full_name: str
    name: str
    type_name: str
    tags: frozenset[str]
    message: Any
    """The record that it is in."""

    @property
    def is_primitive(self) -> bool:
        """Whether it has a single value."""
        return self.type_name in PRIMITIVE


Visit = Callable[[Field, Any], Any]
"""Takes a field and its value, and returns the value to have instead."""
Transform = Callable[[Any, Visit, Mapping[str, Iterable[str]]], Any]
"""Visits all fields of a record; takes the tags of the schema's metadata as well."""


@lru_cache(maxsize=1_000)
def _pattern(text: str) -> re.Pattern[str]:
    """Return the expression for a path: `?` one character, `*` within a name, `**` across names."""
    parts = re.split(r"(\*\*|\*|\?)", text.replace("**.*", "**"))
    said = {"**": ".*", "*": "[^.]*", "?": "[^.]"}
    return re.compile("".join(said.get(each) or re.escape(each) for each in parts), re.DOTALL)


def tags_of(full_name: str, inline: Iterable[str], by_path: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return the tags of a field: those in the schema's text, and those that its metadata gives to paths."""
    found = set(inline)
    for path, tags in by_path.items():
        if _pattern(path).fullmatch(full_name):
            found.update(tags)
    return frozenset(found)
