"""Progress of long work: a bar with rate and remaining time on a terminal, nothing in a pipe or a log."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ottla.cli.support.options import is_terminal

SHOWN_EVERY_S = 0.1


def is_pipe(stream: Any) -> bool:
    """Return whether a standard stream leads to another program."""
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class Update(Protocol):
    """Updates the progress: `done` of the total; `count` is what the rate is of, if that differs."""

    def __call__(self, done: float, count: int | None = None) -> None:
        """Take note of it."""


@contextmanager
def progress(
    what: str, total: float | None, *, unit: str = "records", quiet: bool = False
) -> Iterator[Update]:
    """Show progress on standard error if it is a terminal; yield the update function.

    Without a total there is a count and a rate, with one a bar and the remaining time as well. If standard
    output is a pipe there is none: what reads it may write to the same terminal.
    """
    if quiet or not is_terminal(sys.stderr) or is_pipe(sys.stdout):
        yield lambda done, count=None: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        SpinnerColumn() if total is None else BarColumn(24),
    ]
    columns.append(TextColumn("{task.fields[counted]}"))
    if total is not None:
        columns += [
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(compact=True),
        ]
    began = shown = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, counted="")

        def update(done: float, count: int | None = None) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown < SHOWN_EVERY_S:
                return
            shown = now
            counted = int(done if count is None else count)
            rate = counted / (now - began)
            bar.update(task, completed=done, counted=f"{counted:,} {unit}, {rate:,.0f}/s")

        yield update
