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
            return _find(data, self.steps, 0)
        for name in self._names:  # most paths: names only
            if not isinstance(data, dict) or name not in data:
                return ()
            data = data[name]
        return (data,)

    def replace(self, data: Any, make: Callable[[Any], Any]) -> Any:
        """Return a copy of `data` with each value at this path replaced."""
        return _replaced(data, self.steps, 0, make)


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


def _find(data: Any, steps: tuple[Step, ...], at: int) -> Iterator[Any]:
    if at == len(steps):
        yield data
        return
    kind, value = steps[at]
    if kind == "name":
        if isinstance(data, dict) and value in data:
            yield from _find(data[value], steps, at + 1)
    elif kind == "index":
        if isinstance(data, list) and -len(data) <= value < len(data):
            yield from _find(data[value], steps, at + 1)
    elif kind == "all":
        for each in _children(data):
            yield from _find(each, steps, at + 1)
    else:
        for each in _everywhere(data, value):
            yield from _find(each, steps, at + 1)


def _children(data: Any) -> Any:
    if isinstance(data, dict):
        return data.values()
    return data if isinstance(data, list) else ()


def _everywhere(data: Any, name: str) -> Iterator[Any]:
    waiting = [data]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict) and name in each:
            yield each[name]
        waiting.extend(_children(each))


def _replaced(data: Any, steps: tuple[Step, ...], at: int, make: Callable[[Any], Any]) -> Any:
    if at == len(steps):
        return make(data)
    kind, value = steps[at]
    if isinstance(data, dict):
        if kind == "deep":
            return {
                name: _replaced(each, steps, at + 1, make)
                if name == value
                else _replaced(each, steps, at, make)
                for name, each in data.items()
            }
        if kind == "all" or (kind == "name" and value in data):
            chosen = data if kind == "all" else {value}
            return {
                name: _replaced(each, steps, at + 1, make) if name in chosen else each
                for name, each in data.items()
            }
    if isinstance(data, list):
        if kind == "deep":
            return [_replaced(each, steps, at, make) for each in data]
        if kind == "all":
            return [_replaced(each, steps, at + 1, make) for each in data]
        if kind == "index" and -len(data) <= value < len(data):
            found = list(data)
            found[value] = _replaced(found[value], steps, at + 1, make)
            return found
    return data
