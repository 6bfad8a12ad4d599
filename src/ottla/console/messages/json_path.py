"""JSONPath, the part of it that people use: `$.a.b[0]`, `$['a b'][*].c`, `$..name`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_STEP = re.compile(
    r"""\.\.(?P<deep>[A-Za-z_][\w-]*)
      | \.(?P<name>[A-Za-z_][\w-]*)
      | \.(?P<star>\*)
      | \[\s*(?P<index>-?\d{1,9})\s*\]
      | \[\s*(?P<all>\*)\s*\]
      | \[\s*'(?P<single>[^']*)'\s*\]
      | \[\s*"(?P<double>[^"]*)"\s*\]
    """,
    re.VERBOSE,
)

Step = tuple[str, Any]


class JsonPath:
    """A parsed path."""

    def __init__(self, text: str, steps: tuple[Step, ...]) -> None:
        self.text = text
        self.steps = steps
        is_plain = all(kind == "name" for kind, _ in steps)
        self._names = tuple(value for _, value in steps) if is_plain else None

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """Return the path of a text such as `$.a[0]`; ValueError says where it ends to make sense."""
        if not text.startswith("$"):
            raise ValueError(f"a path begins with $, not {text[:10]!r}")
        steps, end = read_steps(text, 1)
        if end != len(text):
            raise ValueError(f"{text[end:]!r} is not part of a path; write $.name, $['name'], $[0], $[*]")
        return cls(text, steps)

    def find(self, data: Any) -> Iterable[Any]:
        """Return the values at this path."""
        if self._names is None:
            return _found(data, self.steps)
        for name in self._names:  # most paths: names only
            if not isinstance(data, dict) or name not in data:
                return ()
            data = data[name]
        return (data,)

    def replace(self, data: Any, make: Callable[[Any], Any]) -> Any:
        """Replace each value at this path, in place; return the data."""
        if not self.steps:
            return make(data)
        kind, name = self.steps[-1]
        holders = _found(data, self.steps[:-1])
        if kind == "deep":
            holders = list(_containers(holders))
        for holder in holders:
            for key in _keys(holder, kind, name):
                holder[key] = make(holder[key])
        return data


def read_steps(text: str, at: int) -> tuple[tuple[Step, ...], int]:
    """Return the steps that are written at a place in a text, and where they end."""
    steps: list[Step] = []
    while found := _STEP.match(text, at):
        kind = found.lastgroup or ""
        value = found[kind]
        if kind == "index":
            steps.append(("index", int(value)))
        elif kind in ("star", "all"):
            steps.append(("all", None))
        elif kind == "deep":
            steps.append(("deep", value))
        else:
            steps.append(("name", value))
        at = found.end()
    return tuple(steps), at


def _found(data: Any, steps: tuple[Step, ...]) -> list[Any]:
    """Return the values at the end of the steps, in time that grows with the data, however deep it is."""
    found = [data]
    for kind, value in steps:
        holders = _containers(found) if kind == "deep" else found
        found = [each[key] for each in holders for key in _keys(each, kind, value)]
    return found


def _keys(data: Any, kind: str, value: Any) -> Iterable[Any]:
    """Return the keys or indexes of what one step finds in an object or an array."""
    if isinstance(data, dict):
        if kind == "all":
            return list(data)
        return (value,) if kind in ("name", "deep") and value in data else ()
    if isinstance(data, list):
        if kind == "all":
            return range(len(data))
        return (value,) if kind == "index" and -len(data) <= value < len(data) else ()
    return ()


def _containers(data: list[Any]) -> Iterator[Any]:
    """Yield each object and array within some data once, though they may be within each other."""
    waiting = data[::-1]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict | list) and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting.extend(each.values() if isinstance(each, dict) else each)
