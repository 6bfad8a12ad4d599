"""The progress of a running pipeline: a live table on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.support.output import echo_err

if TYPE_CHECKING:
    from ottla.spark.pipelines.run.progress import FlowProgress

COLUMNS = ("flow", "into", "state", "batch", "rows", "rows/s", "batch time", "lag", "behind")
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
        "" if flow.seconds_behind is None else f"{flow.seconds_behind:,.1f} s",
    ]


class JsonLines:
    """One JSON line on standard output for every batch; messages on standard error."""

    def batch(self, progress: FlowProgress) -> None:
        """Print a batch."""
        click.echo(json.dumps(progress.as_json()))
        sys.stdout.flush()

    def update(self, flows: Sequence[FlowProgress]) -> None:
        """Print nothing: every batch has its line."""

    def message(self, text: str) -> None:
        """Say it."""
        echo_err(text)


class LiveTable:
    """A live table on standard error."""

    def __init__(self) -> None:
        self._live: Any = None

    def batch(self, progress: FlowProgress) -> None:
        """Show nothing: the next refresh does."""

    def update(self, flows: Sequence[FlowProgress]) -> None:
        """Show all flows."""
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
            self._live.start()
        self._live.update(_table(flows), refresh=True)

    def message(self, text: str) -> None:
        """Print a message above the table."""
        if self._live is None:
            echo_err(text)
        else:
            self._live.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Leave the table as it is now."""
        if self._live is not None:
            self._live.stop()


class SharedView:
    """One view for several pipelines: their flows are shown together, as PIPELINE.FLOW."""

    def __init__(self, view: JsonLines | LiveTable) -> None:
        self._view = view
        self._lock = Lock()
        self._flows: dict[str, list[FlowProgress]] = {}

    def of(self, pipeline: str) -> PipelineView:
        """Return the view of one pipeline."""
        return PipelineView(self, pipeline)

    def batch(self, pipeline: str, progress: FlowProgress) -> None:
        """Show a batch."""
        with self._lock:
            self._view.batch(_named(pipeline, progress))

    def update(self, pipeline: str, flows: Sequence[FlowProgress]) -> None:
        """Show the flows of all pipelines."""
        with self._lock:
            self._flows[pipeline] = [_named(pipeline, each) for each in flows]
            self._view.update([each for shown in self._flows.values() for each in shown])

    def message(self, pipeline: str, text: str) -> None:
        """Print a message."""
        with self._lock:
            self._view.message(f"{pipeline}: {text}")


class PipelineView:
    """The part of a shared view that belongs to one pipeline."""

    def __init__(self, shared: SharedView, pipeline: str) -> None:
        self._shared = shared
        self._pipeline = pipeline

    def batch(self, progress: FlowProgress) -> None:
        """Show a batch."""
        self._shared.batch(self._pipeline, progress)

    def update(self, flows: Sequence[FlowProgress]) -> None:
        """Show all flows."""
        self._shared.update(self._pipeline, flows)

    def message(self, text: str) -> None:
        """Print a message."""
        self._shared.message(self._pipeline, text)


def _named(pipeline: str, progress: FlowProgress) -> FlowProgress:
    return replace(progress, flow=f"{pipeline}.{progress.flow}")


class CopyBar:
    """A progress bar on standard error for a copy: rows, rate, and the remaining rows if known."""

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
        """Show the progress."""
        total = None if progress.lag is None else progress.rows + progress.lag
        self._bar.update(self._task, completed=progress.rows, total=total, rate=progress.rows_per_second)

    def update(self, flows: Sequence[FlowProgress]) -> None:
        """Show nothing: batches do."""

    def message(self, text: str) -> None:
        """Print a message above the bar."""
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
