"""What one sees while partitions move: a bar with rate and remaining time, or a line now and then."""

from __future__ import annotations

import asyncio
import sys

from ottla.cli.options import is_terminal
from ottla.cli.output import count, talk
from ottla.cli.problems import Problem
from ottla.client.admin.moves import MoveWatch, Progress
from ottla.common.units import MIB

LINE_EVERY_S = 10.0


async def watch(moves: MoveWatch) -> None:
    """Show how far the moves are until all of them have ended; a `Problem` if some were cancelled."""
    try:
        end = await (_watch_bar(moves) if is_terminal(sys.stderr) else _watch_lines(moves))
    except asyncio.CancelledError:
        talk("the moves go on without you; to see them again:  ottla cluster reassign --watch")
        raise
    if end.cancelled:
        raise Problem(
            f"{count(end.cancelled, 'move')} of {end.partitions:,} cancelled while under way",
            "see where partitions are now:  ottla topic describe TOPIC",
        )
    talk(f"{count(end.partitions, 'partition')} moved")


async def _watch_bar(moves: MoveWatch) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn as Column
    from rich.text import Text

    class Rate(Column):
        """In the unit of the sizes beside it, which rich's own column is not."""

        def render(self, task: Task) -> Text:
            return Text("" if not task.speed else f"{task.speed / MIB:,.1f} MiB/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        Rate(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("moving", total=None)
        async for each in moves.progress():
            done = each.partitions - each.partitions_left - each.cancelled
            bar.update(
                task,
                description=f"{done} of {count(each.partitions, 'partition')}",
                completed=each.copied_bytes,
                total=max(each.total_bytes, 1) if each.total_bytes or each.partitions_left else None,
            )
    return each


async def _watch_lines(moves: MoveWatch) -> Progress:
    loop = asyncio.get_running_loop()
    began = shown = loop.time()
    first_bytes: int | None = None
    async for each in moves.progress():
        now = loop.time()
        first_bytes = each.copied_bytes if first_bytes is None else first_bytes
        if each.partitions_left and now - shown >= LINE_EVERY_S:
            shown = now
            talk(_line(each, (each.copied_bytes - first_bytes) / (now - began)))
    return each


def _line(progress: Progress, bytes_per_second: float) -> str:
    copied, total = progress.copied_bytes / MIB, progress.total_bytes / MIB
    line = f"{count(progress.partitions_left, 'partition')} left, {copied:,.0f} of {total:,.0f} MiB"
    if bytes_per_second <= 0:
        return line
    left_s = (progress.total_bytes - progress.copied_bytes) / bytes_per_second
    return f"{line}, {bytes_per_second / MIB:,.1f} MiB/s, {left_s:,.0f} s left"
