"""Errors of pipelines, with the user's file and line."""

from __future__ import annotations

import linecache
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A line of a user's file; line 0 means the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def text(self) -> str:
        """Return that line as the user wrote it, without its indentation."""
        return linecache.getline(self.file, self.line).strip() if self.line else ""


class PipelineProblem(Exception):
    """An error that the user can fix: what happened, where, and what to do."""

    def __init__(self, what: str, *hints: str, place: Place | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hints = hints
        self.place = place

    def __str__(self) -> str:
        return "\n".join([self.headline(), *(f"  {line}" for line in self.details())])

    def headline(self) -> str:
        """Return what happened, after the file and line."""
        return f"{self.place}: {self.what}" if self.place else self.what

    def details(self) -> list[str]:
        """Return the user's line, and the hints."""
        shown = self.place.text() if self.place else ""
        return [*([shown] if shown else []), *self.hints]
