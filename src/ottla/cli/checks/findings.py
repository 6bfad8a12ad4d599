"""The results of `ottla doctor`: the state of each check, and how to fix what is wrong."""

from __future__ import annotations

from typing import NamedTuple

import click

from ottla.cli.support.problem_kinds import Kind

OK, WARNING, FAILED, SKIPPED = "ok", "warning", "wrong", "skipped"
COLOURS = {OK: "green", WARNING: "yellow", FAILED: "red", SKIPPED: "bright_black"}


class Finding(NamedTuple):
    """The outcome of one check."""

    check: str
    state: str
    what: str
    fix: str | None = None
    kind: Kind | None = None

    def as_json(self) -> dict[str, str | None]:
        """Return it as JSON."""
        code = None if self.kind is None else self.kind.code
        return {"check": self.check, "state": self.state, "what": self.what, "fix": self.fix, "code": code}

    def as_row(self) -> list[str]:
        """Return it as a table row: the check, its state, what was found and what to do."""
        what = self.what
        if self.fix is not None:
            what += f"; {self.fix}"
        if self.kind is not None:
            what += f" (ottla explain {self.kind.code})"
        return [self.check, click.style(self.state, fg=COLOURS[self.state], bold=self.state == FAILED), what]
