"""Error messages: what happened, why, and what to type next."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from typing import IO, Any

import click

from ottla.cli.support.problem_kinds import NO_PACKAGE, USAGE, Kind

_RANGE = re.compile(r"(\S+) is not in the range (?:(\S+)<=)?x(?:<=(\S+)|>=(\S+))")
"""How click says that a number is too small or too large."""


class Problem(click.ClickException):
    """A user error or a broker's error; printed as an `error:` line and indented hints."""

    def __init__(self, what: str, *hints: str, kind: Kind | None = None) -> None:
        super().__init__(what)
        self.hints = hints
        self.kind = kind

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it."""
        more = () if self.kind is None else (f"more:  ottla explain {self.kind.code}",)
        show(self.message, (*self.hints, *more), file)


class Interrupted(click.exceptions.Abort):
    """Ctrl-C was pressed; `how` says how to resume."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


def show(what: str, hints: tuple[str, ...] = (), file: IO[Any] | None = None) -> None:
    """Print an error and its hints to standard error (or `file`)."""
    out = file or sys.stderr
    colours = False if os.environ.get("NO_COLOR") else None
    label = click.style("error:", fg="red", bold=True)
    click.echo(f"{label} {_fitted(what, out, first=7)}", file=out, color=colours)
    for hint in hints:
        click.echo(f"  {_fitted(hint, out, first=2)}", file=out)


def _fitted(text: str, out: IO[Any], first: int) -> str:
    """Wrap a text to the width of the terminal, after `first` columns of something else."""
    if not out.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = textwrap.wrap(
        " " * first + text,
        max(width, 40),
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(lines)[first:]


def missing_package(package: str, extra: str, *hints: str) -> Problem:
    """Return the message for a package that is not installed."""
    return Problem(
        f"this needs the package {package}, which is not installed",
        f"install it:  pip install 'ottla[{extra}]'",
        *hints,
        kind=NO_PACKAGE,
    )


def _range_in_words(found: re.Match[str]) -> str:
    value, low, high, only_low = found.groups()
    low = low or only_low
    if low is not None and high is not None:
        return f"{value} is not between {low} and {high}"
    return f"{value} is less than {low}" if low is not None else f"{value} is more than {high}"


def need_package(package: str, extra: str) -> None:
    """Raise Problem if a package is not installed: before anything is started or written."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise missing_package(package, extra)


def show_usage(error: click.UsageError, command: str = "ottla") -> None:
    """Print a usage error, and how to get help; `command` is what was typed, if the error does not know."""
    message = _RANGE.sub(_range_in_words, error.format_message().rstrip("."))
    message = re.sub(r"^No such command (.*)$", r"there is no command \1", message)
    message = re.sub(r"is not a valid (?:integer|int)\b( range)?", "is not a whole number", message)
    message = re.sub(r"is not a valid float\b( range)?", "is not a number", message)
    what = message[0].lower() + message[1:] if message[:2].istitle() or message[:1].isupper() else message
    path = command if error.ctx is None else error.ctx.command_path
    see = f"see:  {path} --help  ({USAGE.code})"
    is_early = isinstance(error, click.NoSuchOption) and error.ctx is not None and error.ctx.parent is None
    order = ("options follow the command:  ottla topic list -b HOST:PORT",) if is_early else ()
    show(what, (*order, see))
