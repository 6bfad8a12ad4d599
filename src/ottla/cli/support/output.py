"""Output of commands: tables, JSON, and messages on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from ottla.cli.support.options import is_terminal
from ottla.common.units import GIB, KIB, MIB


def print_json(value: Any) -> None:
    """Print one JSON document, indented."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[str] = ()) -> None:
    """Print rows under headings; columns named in `right` contain numbers.

    On a terminal, cells that do not fit are wrapped. In a pipe nothing is wrapped or cut: one row, one line.
    """
    numeric = set(right)
    if is_terminal(sys.stdout):
        _print_wrapped(columns, rows, numeric)
        return
    cells = [list(columns), *([click.unstyle(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        aligned = (
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        )
        click.echo("  ".join(aligned).rstrip())


def _print_wrapped(columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: set[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text.from_ansi(cell) for cell in row))
    Console(highlight=False).print(table)


def write_bytes(data: bytes) -> None:
    """Write all data to standard output, and flush.

    With PYTHONUNBUFFERED the stream is the raw file, which may write only a part of it at once.
    """
    stream = sys.stdout.buffer
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
    stream.flush()


def echo_err(message: str) -> None:
    """Print a message to standard error."""
    click.echo(message, err=True)


def count(number: int, noun: str) -> str:
    """Return `1 record`, `1,204 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(size_bytes: float) -> str:
    """Return a size as people read it: `1.5 GiB`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:,.1f} {name}"
    return f"{size_bytes:.0f} B"
