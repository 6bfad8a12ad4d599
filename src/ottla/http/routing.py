"""Paths to handlers.

A path is matched as it was sent, segment by segment, and each segment is decoded by itself: a subject may be
named `a/b`, which clients write as `a%2Fb`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from ottla.http.errors import HttpError

Handler = Callable[[Any], Awaitable[Any]]


class Match(NamedTuple):
    """A handler and the values of its path's parameters."""

    handler: Handler
    params: dict[str, str]
    path: str
    """The path with the names of its parameters, as it was added."""


@dataclass(slots=True)
class _Node:
    fixed: dict[str, _Node] = field(default_factory=dict)
    variable: _Node | None = None
    name: str = ""
    handlers: dict[str, tuple[Handler, tuple[str, ...], str]] = field(default_factory=dict)


class Routes:
    """A tree of path segments; a fixed segment wins over a parameter."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Have `handler` called for a method and a path such as `/subjects/{subject}/versions`."""
        node, names = self._root, []
        for segment in segments_of(path):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.fixed.setdefault(segment, _Node())
        if method in node.handlers:
            raise ValueError(f"{method} {path} has a handler already")
        node.handlers[method] = (handler, tuple(names), path)

    def allowed(self, segments: list[str]) -> tuple[str, list[str]]:
        """Return a path as it was added, and its methods; raise 404 if there is none."""
        found = _find(self._root, segments, 0, ())
        if found is None:
            raise HttpError(404)
        handlers = found[0].handlers
        methods = [*handlers, "OPTIONS"]
        return next(iter(handlers.values()))[2], ["HEAD", *methods] if "GET" in handlers else methods

    def all(self) -> list[tuple[str, str]]:
        """Return the method and the path of each route."""
        found, waiting = [], [self._root]
        while waiting:
            node = waiting.pop()
            found += [(method, path) for method, (_, _, path) in node.handlers.items()]
            waiting += [*node.fixed.values(), *([] if node.variable is None else [node.variable])]
        return found

    def match(self, method: str, segments: list[str]) -> Match:
        """Return the handler of a path; raise 404 or 405 if there is none."""
        found = _find(self._root, segments, 0, ())
        if found is None:
            raise HttpError(404)
        node, values = found
        handler = node.handlers.get(method)
        if handler is None and method == "HEAD":
            handler = node.handlers.get("GET")
        if handler is None:
            raise HttpError(405)
        return Match(handler[0], dict(zip(handler[1], values, strict=True)), handler[2])


def segments_of(path: str) -> list[str]:
    """Return the decoded segments of a path; a slash at the end does not count."""
    return [unquote(each) for each in path.split("/") if each]


def _find(
    node: _Node, segments: list[str], at: int, values: tuple[str, ...]
) -> tuple[_Node, tuple[str, ...]] | None:
    if at == len(segments):
        return (node, values) if node.handlers else None
    fixed = node.fixed.get(segments[at])
    if fixed is not None:
        found = _find(fixed, segments, at + 1, values)
        if found is not None:
            return found
    if node.variable is not None:
        return _find(node.variable, segments, at + 1, (*values, segments[at]))
    return None
