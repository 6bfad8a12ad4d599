"""What a page and a change are: declared once, served as HTML and as JSON.

A `View` reads: `GET /c/{cluster}/topics` is its page, `GET /api/clusters/{cluster}/topics` its data. An
`Action` changes: the same paths, with POST, take a form or a JSON object. A `Stream` sends events or a file.
Docs and access control follow from the declarations.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.console.access.roles import OPERATOR, VIEWER, Role

if TYPE_CHECKING:
    from ottla.console.context import Context

Data = dict[str, Any]
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter, or a field of a form."""

    name: str
    doc: str
    kind: str = "string"
    required: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A page and its data."""

    path: str
    summary: str
    template: str
    read: Callable[[Context], Awaitable[Data]]
    role: Role = VIEWER
    query: tuple[Parameter, ...] = ()
    fragment: str = ""
    """The template of what htmx replaces; the whole page by default."""
    correct: Callable[[Context, str], Awaitable[Data]] | None = None
    """Reads the page to show if the query cannot be read, to correct it there; given what is wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action did: a sentence, the page to show next, and data for the API."""

    message: str
    to: str
    data: Data = field(default_factory=dict)
    page: Data | None = None
    """Shown in place of a redirect, with the view's template: a preview."""
    template: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """A change."""

    path: str
    summary: str
    run: Callable[[Context, Form], Awaitable[Outcome]]
    role: Role = OPERATOR
    fields: tuple[Parameter, ...] = ()
    is_change: bool = True
    """Whether it is kept in the audit log; a preview changes nothing."""
    shows_value: bool = False
    """Whether its field `value` is kept there: that of a config, unless its name says that it is a secret."""
    query: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is made while it is sent."""

    content_type: str
    name: str | None
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Stream:
    """Server-sent events, or a download."""

    path: str
    summary: str
    open: Callable[[Context], Awaitable[Download]]
    role: Role = VIEWER
    query: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """The views and actions about one thing, and its place in the navigation."""

    name: str
    title: str
    path: str
    key: str
    views: tuple[View, ...] = ()
    actions: tuple[Action, ...] = ()
    streams: tuple[Stream, ...] = ()
    group: str = ""


class UserError(Exception):
    """What a person asked for cannot be done; says why and what would do."""

    def __init__(self, message: str, hint: str = "", status: int = 422) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


def _whole(name: str, given: str, least: int, most: int) -> int:
    try:
        number = int(given.strip().replace(",", ""))
    except ValueError:
        shown = given if len(given) <= 40 else given[:40] + "…"
        raise UserError(f"{name} is a whole number, not {shown!r}") from None
    if number < least:
        raise UserError(f"{name} is at least {least}")
    if number > most:
        raise UserError(f"{name} is at most {most}")
    return number


class Form:
    """The fields of an action, from a form or from JSON."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field as text; UserError if it is missing and has no default."""
        found = self.values.get(name)
        if isinstance(found, list):
            found = found[-1] if found else None
        if found is None or (found == "" and default is None):
            if default is None:
                raise UserError(f"{name} is missing")
            return default
        return found if isinstance(found, str) else str(found)

    def whole(
        self, name: str, default: int | None = None, *, least: int = -MAX_INT32, most: int = MAX_INT32
    ) -> int:
        """Return a field as a whole number."""
        given = self.text(name, "" if default is not None else None)
        return default if default is not None and not given.strip() else _whole(name, given, least, most)

    def wholes(self, name: str) -> list[int]:
        """Return all values of a field as whole numbers from 0."""
        return [_whole(name, each, 0, MAX_INT32) for each in self.many(name)]

    def flag(self, name: str) -> bool:
        """Return whether a field is set."""
        found = self.text(name, "")
        return found.lower() in ("true", "on", "1", "yes")

    def many(self, name: str) -> list[str]:
        """Return all values of a field."""
        found = self.values.get(name, [])
        return [str(each) for each in found] if isinstance(found, list) else [str(found)]

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Return the fields whose names begin with a prefix, without it; in JSON, the object of that name."""
        whole = self.values.get(prefix.rstrip("."))
        if isinstance(whole, dict):
            return {str(name): str(value) for name, value in whole.items()}
        return {
            name.removeprefix(prefix): self.text(name, "") for name in self.values if name.startswith(prefix)
        }
