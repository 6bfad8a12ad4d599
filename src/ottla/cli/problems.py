"""What went wrong, in words: what happened, why, and what to type next."""

from __future__ import annotations

import sys
from typing import IO, Any

import click


class Problem(click.ClickException):
    """A user's mistake or a broker's refusal; printed as an `error:` line and indented hints."""

    def __init__(self, what: str, *hints: str) -> None:
        super().__init__(what)
        self.hints = hints

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it."""
        show(self.message, self.hints, file)


def show(what: str, hints: tuple[str, ...] = (), file: IO[Any] | None = None) -> None:
    """Print an error and its hints to standard error (or `file`)."""
    out = file or sys.stderr
    label = click.style("error:", fg="red", bold=True)
    click.echo(f"{label} {what}", file=out)
    for hint in hints:
        click.echo(f"  {hint}", file=out)


def show_usage(error: click.UsageError) -> None:
    """Print a mistake in the command line itself, and where to read about it."""
    message = error.format_message().rstrip(".")
    what = message[0].lower() + message[1:] if message[:2].istitle() or message[:1].isupper() else message
    hints = []
    if error.ctx is not None:
        hints.append(f"see: {error.ctx.command_path} --help")
    show(what, tuple(hints))
