"""The demo on a terminal, and as lines of text without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.demo.state import DemoState
from ottla.cli.support.output import count

if TYPE_CHECKING:
    from rich.console import RenderableType

BAR_WIDTH = 24


def as_line(state: DemoState) -> str:
    """Return the state as one line, for logs and pipes."""
    return (
        f"{state.seconds:3.0f} s  {state.sent:,} orders ({state.sent_per_s:,.0f}/s)  "
        f"{state.counted:,} counted  lag: {_lag(state)}"
    )


def ending(state: DemoState) -> str:
    """Return the final results as a sentence."""
    euros = f"{state.counted_cents / 100:,.2f}"
    counted = f"{state.counted:,} of {count(state.sent, 'order')} counted, {euros} EUR"
    return f"{counted}; every order once" if state.is_complete else counted


def as_panel(state: DemoState) -> RenderableType:
    """Return the state as a panel."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    flow = Table(box=None, pad_edge=False, padding=(0, 2))
    flow.add_column("topic")
    flow.add_column("records", justify="right", min_width=9)
    flow.add_column("per second", justify="right")
    flow.add_column("", no_wrap=True)
    feed = Text("orders", style="dim")
    flow.add_row(state.names.orders, f"{state.sent:,}", f"{state.sent_per_s:,.0f}", feed)
    says = Text(f"{state.pipeline}: {_lag(state)}", style="" if state.totals else "yellow")
    flow.add_row(state.names.results, f"{state.results:,}", f"{state.results_per_s:,.0f}", says)
    totals = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    totals.add_column("country")
    totals.add_column("orders", justify="right", min_width=8)
    totals.add_column("EUR", justify="right", min_width=14)
    totals.add_column("")
    most = max((each.cents for each in state.totals.values()), default=1) or 1
    for country, each in sorted(state.totals.items(), key=lambda item: -item[1].cents):
        bar = "█" * max(1, round(BAR_WIDTH * each.cents / most))
        totals.add_row(country, f"{each.orders:,}", f"{each.cents / 100:,.2f}", Text(bar, style="cyan"))
    whose = "its own broker" if state.is_own_broker else "the broker"
    title = f"[bold]Ottla demo[/bold]  {state.seconds:,.0f} s, {whose} at {state.address}"
    look = [f"ottla consume -b {state.address} {state.names.orders}"]
    look += [f"{url}  ({name})" for name, url in state.services.items()]
    try_it = Text("\nlook inside:  " + "\n              ".join(look), style="dim")
    return Panel(
        Group(flow, Text(), totals, try_it),
        title=title,
        title_align="left",
        subtitle="Ctrl-C ends it",
        subtitle_align="right",
        width=78,
    )


def _lag(state: DemoState) -> str:
    if not state.totals:
        return "starting"
    if state.is_complete:
        return "caught up"
    if state.lag_records is None:
        return "unknown"
    seconds = "" if state.lag_seconds is None else f", {state.lag_seconds:.1f} s"
    return f"{state.lag_records:,} behind{seconds}"
