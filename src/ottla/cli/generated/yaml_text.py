"""Write plain data as YAML: blocks, comments, and quotes for every ambiguous string."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def to_yaml(value: Any, comment: str = "") -> str:
    """Return `value`, made of dicts, lists, strings, numbers and booleans, as a YAML document."""
    head = "".join(f"# {line}\n" if line else "#\n" for line in comment.strip().splitlines())
    return head + "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entry(f"{indent}{_scalar(key)}:", item, f"{indent}  ")
    else:
        for item in value:
            if isinstance(item, dict | list) and item:
                first, *rest = _lines(item, f"{indent}  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield f"{indent}- {_scalar(item)}"


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, dict | list) and item:
        yield head
        yield from _lines(item, indent)
    elif isinstance(item, str) and "\n" in item:
        yield f"{head} |"
        yield from (f"{indent}{line}" if line else "" for line in item.rstrip("\n").splitlines())
    else:
        yield f"{head} {_scalar(item)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
