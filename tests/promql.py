"""Which metrics, and which of their labels, a PromQL expression asks for. Enough for our files."""

from __future__ import annotations

import re

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_RANGE = re.compile(r"\[[^\]]*\]")
_CLAUSE = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_METRIC = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?(?!\s*\()(?![a-zA-Z0-9_:])")
_LABEL = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring"})
_NAME_OF_FUNCTION = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\s*\(")

Asked = dict[str, set[str]]


def asked(expression: str) -> tuple[Asked, set[str]]:
    """Return every metric with the labels that select it, and the labels that results are grouped by."""
    text = _RANGE.sub("", _STRING.sub('""', expression))
    grouped: set[str] = set()
    for clause in _CLAUSE.findall(text):
        grouped |= {label.strip() for label in clause.split(",") if label.strip()}
    text = _NAME_OF_FUNCTION.sub("(", _CLAUSE.sub(" ", text))
    found: Asked = {}
    for name, selector in _METRIC.findall(text):
        if name not in _WORDS and not name.isdigit():
            found.setdefault(name, set()).update(_LABEL.findall(selector))
    return found, grouped
