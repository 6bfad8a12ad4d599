"""What one sees while a pipeline runs: a live table on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.support.output import talk

if TYPE_CHECKING:
    from ottla.spark.pipelines.progress import FlowProgress

COLUMNS = ("flow", "into", "state", "batch", "rows", "rows/s", "batch time", "lag")
NUMBERS = COLUMNS[3:]


def cells(flow: FlowProgress) -> list[str]:
    """Return one row of the table."""
    return [
        flow.flow,
        flow.target,
        flow.state if not flow.restarts else f"{flow.state} x{flow.restarts}",
        "" if flow.batch is None else str(flow.batch),
        f"{flow.rows:,}",
        f"{flow.rows_per_second:,.0f}",
        f"{flow.batch_ms:,} ms",
        "" if flow.lag is None else f"{flow.lag:,}",
    ]


class JsonLines:
    """One JSON line on standard output for every batch; words on standard error."""

    def batch(self, progress: FlowProgress) -> None:
        """Print a batch."""
        click.echo(json.dumps(progress.as_json()))
        sys.stdout.flush()

    def look(self, flows: Sequence[FlowProgress]) -> None:
        """Print nothing: batches say it all."""

    def say(self, text: str) -> None:
        """Say it."""
        talk(text)


class LiveTable:
    """A table on standard error that changes in its place."""

    def __init__(self) -> None:
        self._live: Any = None

    def batch(self, progress: FlowProgress) -> None:
        """Show nothing: the next look has it."""

    def look(self, flows: Sequence[FlowProgress]) -> None:
        """Show all flows."""
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
            self._live.start()
        self._live.update(_table(flows), refresh=True)

    def say(self, text: str) -> None:
        """Say it, above the table."""
        if self._live is None:
            talk(text)
        else:
            self._live.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Leave the table as it is now."""
        if self._live is not None:
            self._live.stop()


class CopyBar:
    """A bar on standard error for a copy: rows, rate, and how much is left where that is known."""

    def __init__(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} rows"),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._bar.start()
        self._task = self._bar.add_task(what, total=None, rate=0.0)

    def batch(self, progress: FlowProgress) -> None:
        """Show how far it is."""
        total = None if progress.lag is None else progress.rows + progress.lag
        self._bar.update(self._task, completed=progress.rows, total=total, rate=progress.rows_per_second)

    def look(self, flows: Sequence[FlowProgress]) -> None:
        """Show nothing: batches say it all."""

    def say(self, text: str) -> None:
        """Say it, above the bar."""
        self._bar.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Leave the bar as it is now."""
        self._bar.stop()


def _table(flows: Sequence[FlowProgress]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in NUMBERS else "left", overflow="fold")
    for flow in flows:
        table.add_row(*cells(flow), style="red" if flow.error else None)
    return table
