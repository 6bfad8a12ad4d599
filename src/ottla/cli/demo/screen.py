"""The scene of the demo on a terminal, and in words for where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.demo.scene import Scene
from ottla.cli.support.output import count

if TYPE_CHECKING:
    from rich.console import RenderableType

BAR_WIDTH = 24


def as_line(scene: Scene) -> str:
    """Return the scene as one line, for logs and pipes."""
    return (
        f"{scene.seconds:3.0f} s  {scene.sent:,} orders ({scene.sent_per_s:,.0f}/s)  "
        f"{scene.counted:,} counted  lag {_lag(scene)}"
    )


def ending(scene: Scene) -> str:
    """Return what has come out of it."""
    euros = f"{scene.counted_cents / 100:,.2f}"
    counted = f"{scene.counted:,} of {count(scene.sent, 'order')} counted, {euros} EUR"
    return f"{counted}; every order once" if scene.is_complete else counted


def as_panel(scene: Scene) -> RenderableType:
    """Return the scene as it is drawn."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    flow = Table(box=None, pad_edge=False, padding=(0, 2))
    flow.add_column("topic")
    flow.add_column("records", justify="right", min_width=9)
    flow.add_column("per second", justify="right")
    flow.add_column("")
    feed = Text("orders", style="dim")
    flow.add_row(scene.names.orders, f"{scene.sent:,}", f"{scene.sent_per_s:,.0f}", feed)
    says = Text(f"{scene.pipeline}: {_lag(scene)}", style="" if scene.totals else "yellow")
    flow.add_row(scene.names.results, f"{scene.results:,}", f"{scene.results_per_s:,.0f}", says)
    totals = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    totals.add_column("country")
    totals.add_column("orders", justify="right", min_width=8)
    totals.add_column("EUR", justify="right", min_width=14)
    totals.add_column("")
    most = max((each.cents for each in scene.totals.values()), default=1) or 1
    for country, each in sorted(scene.totals.items(), key=lambda item: -item[1].cents):
        bar = "█" * max(1, round(BAR_WIDTH * each.cents / most))
        totals.add_row(country, f"{each.orders:,}", f"{each.cents / 100:,.2f}", Text(bar, style="cyan"))
    whose = "its own broker" if scene.is_own_broker else "the broker"
    title = f"[bold]Ottla demo[/bold]  {scene.seconds:,.0f} s, {whose} at {scene.address}"
    try_it = Text(f"\nlook in:  ottla consume -b {scene.address} {scene.names.orders}", style="dim")
    return Panel(
        Group(flow, Text(), totals, try_it),
        title=title,
        title_align="left",
        subtitle="Ctrl-C ends it",
        subtitle_align="right",
        width=78,
    )


def _lag(scene: Scene) -> str:
    if not scene.totals:
        return "starting"
    if scene.lag_records is None:
        return "unknown"
    seconds = "" if scene.lag_seconds is None else f", {scene.lag_seconds:.1f} s"
    return f"{scene.lag_records:,} behind{seconds}"
