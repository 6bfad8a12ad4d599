"""What one sees while partitions move: a bar with rate and remaining time, or a line now and then."""

from __future__ import annotations

import asyncio
import sys

from ottla.cli.options import is_terminal
from ottla.cli.output import count, talk
from ottla.client.moves import MoveWatch, Progress
from ottla.common.units import MIB

LINE_EVERY_S = 10.0


async def watch(moves: MoveWatch) -> None:
    """Show how far the moves are until all of them have ended."""
    if is_terminal(sys.stderr):
        await _watch_bar(moves)
    else:
        await _watch_lines(moves)


async def _watch_bar(moves: MoveWatch) -> None:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("moving", total=None)
        async for each in moves.progress():
            done = each.partitions - each.partitions_left
            bar.update(
                task,
                description=f"{done} of {count(each.partitions, 'partition')}",
                completed=each.copied_bytes,
                total=max(each.total_bytes, 1) if each.total_bytes or each.partitions_left else None,
            )


async def _watch_lines(moves: MoveWatch) -> None:
    loop = asyncio.get_running_loop()
    began = shown = loop.time()
    first_bytes: int | None = None
    async for each in moves.progress():
        now = loop.time()
        first_bytes = each.copied_bytes if first_bytes is None else first_bytes
        if not each.partitions_left:
            talk(f"{count(each.partitions, 'partition')} moved")
        elif now - shown >= LINE_EVERY_S:
            shown = now
            talk(_line(each, (each.copied_bytes - first_bytes) / (now - began)))


def _line(progress: Progress, bytes_per_second: float) -> str:
    copied, total = progress.copied_bytes / MIB, progress.total_bytes / MIB
    line = f"{count(progress.partitions_left, 'partition')} left, {copied:,.0f} of {total:,.0f} MiB"
    if bytes_per_second <= 0:
        return line
    left_s = (progress.total_bytes - progress.copied_bytes) / bytes_per_second
    return f"{line}, {bytes_per_second / MIB:,.1f} MiB/s, {left_s:,.0f} s left"
