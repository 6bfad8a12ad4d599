"""What `ottla serve` says when it is ready: a line for programs, and a banner for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ottla import __version__
from ottla.cli.options import DEFAULT_BOOTSTRAP, is_terminal

if TYPE_CHECKING:
    from ottla.broker import BrokerAddresses
    from ottla.common.listeners import Address


def announce(addresses: BrokerAddresses) -> None:
    """Print the `ready` line that scripts wait for and, on a terminal, where everything is."""
    if is_terminal(sys.stderr):
        _print_banner(addresses)
    click.echo(f"ready {' '.join(str(address) for _, address in addresses.listeners)}")
    sys.stdout.flush()


def reachable(address: Address) -> Address:
    """Return where a browser on this machine finds what listens on `address`."""
    return address._replace(host="127.0.0.1") if address.host in ("", "0.0.0.0", "::") else address


def _print_banner(addresses: BrokerAddresses) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    first = str(addresses.listeners[0][1])
    where = "" if first == DEFAULT_BOOTSTRAP else f" -b {first}"
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, address in addresses.listeners:
        facts.add_row("listening", Text(f"{address}  {name}", style="bold"))
    if addresses.metrics is not None:
        facts.add_row("metrics", Text(f"http://{reachable(addresses.metrics)}/metrics"))
    facts.add_row("data", Text(addresses.data_directory))
    facts.add_row("node", Text(f"{addresses.node_id} of cluster {addresses.cluster_id}"))
    facts.add_row("try", Text(f"echo hello | ottla produce{where} greetings"))
    facts.add_row("", Text(f"ottla consume{where} greetings --from-beginning"))
    facts.add_row("stop", Text("Ctrl-C"))
    title = f"[bold]Ottla {__version__}[/bold]"
    Console(stderr=True).print(Panel(facts, title=title, title_align="left", expand=False, padding=(0, 2)))
