"""`ottla up`: run broker, schema registry, console and Connect together.

Each is a process of its own: `ottla serve`, `ottla registry serve`, `ottla console serve`, `ottla connect
serve`. The ports are checked before anything is created. The brokers start first, and stop last.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import click

from ottla import __version__
from ottla.cli.serve.command import DEFAULT_DATA, DEFAULT_LISTEN, MAX_BROKERS
from ottla.cli.support.child_processes import (
    Child,
    keep_running,
    stop_children,
    stop_on_signals,
    wait_until_ready,
)
from ottla.cli.support.options import (
    broker_settings_option,
    config_file_option,
    is_terminal,
    listen_address,
    log_options,
)
from ottla.cli.support.output import echo_err
from ottla.cli.support.problem_kinds import PORT_IN_USE
from ottla.cli.support.problems import Problem
from ottla.common.log_format import resolve

OFF = "off"


@dataclass(frozen=True, slots=True)
class Service:
    """One service beside the broker."""

    name: str
    title: str
    default: str
    package: str
    """A package that only its extra installs."""


REGISTRY = Service("registry", "schema registry", "127.0.0.1:8081", "starlette")
CONSOLE = Service("console", "console", "127.0.0.1:8080", "jinja2")
CONNECT = Service("connect", "Connect", "127.0.0.1:8083", "pyspark")


@dataclass(frozen=True, slots=True)
class UpPlan:
    """What to run, and where."""

    broker_arguments: Sequence[str]
    """The options of `ottla serve`."""
    services: Sequence[tuple[Service, str]]
    """Each service with its address."""
    client_config: Path | None
    """The client options with which the services connect to the broker."""
    log_format: str
    data: Path | None
    """Where the services keep files; None with a temporary data directory."""

    def arguments(self, service: Service, address: str, bootstrap: str, urls: Mapping[str, str]) -> list[str]:
        """Return the command line of a service; `urls` has the services that run by their names."""
        arguments = [service.name, "serve", "-b", bootstrap, "--listen", address]
        if self.client_config is not None:
            arguments += ["--command-config", str(self.client_config)]
        if service is CONSOLE:
            arguments += ["--registry", urls.get("registry", ""), "--connect", urls.get("connect", "")]
        if self.data is not None and service in (CONSOLE, CONNECT):
            option = "--data" if service is CONSOLE else "--storage"
            arguments += [option, str(self.data / service.name)]
        return arguments


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-d",
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help=f"The data directory.  [default: {DEFAULT_DATA}]",
)
@click.option("--ephemeral", is_flag=True, help="Use a temporary data directory.")
@click.option(
    "-l",
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="The listen address of the broker, with -n of the first one.",
)
@click.option("-n", "brokers", type=click.IntRange(1, MAX_BROKERS), metavar="N", help="Run N brokers.")
@config_file_option("A Java .properties file with the broker's keys.")
@broker_settings_option("A Kafka config key of the broker; overrides the file; repeatable.")
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="The address of the broker's /metrics, or off.  [default: port 9644, if it is free]",
)
@click.option(
    "--registry",
    metavar="HOST:PORT",
    default=REGISTRY.default,
    show_default=True,
    help="The schema registry's address, or off.",
)
@click.option(
    "--console",
    metavar="HOST:PORT",
    default=CONSOLE.default,
    show_default=True,
    help="The console's address, or off.",
)
@click.option(
    "--connect",
    metavar="HOST:PORT",
    is_flag=False,
    flag_value=CONNECT.default,
    default=OFF,
    help=f"Run Connect too; without a value at {CONNECT.default}.  [default: off]",
)
@click.option(
    "--command-config",
    "client_config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A .properties file of client options for the services, if the broker asks for a login.",
)
@log_options
def up(
    data: str | None,
    ephemeral: bool,
    listen: str,
    brokers: int | None,
    file: Path | None,
    settings: dict[str, str],
    metrics: str | None,
    registry: str,
    console: str,
    connect: str,
    client_config: Path | None,
    log_level: str,
    log_format: str,
) -> int:
    """Run a broker, a schema registry and the console until Ctrl-C or SIGTERM.

    Prints one line that starts with `ready` to standard output when all of them accept requests.

    \b
    ottla up
    ottla up --connect
    ottla up -n 3 --data /srv/ottla --console off
    """
    if ephemeral and data is not None:
        raise click.UsageError("--ephemeral excludes --data")
    wanted = [(REGISTRY, registry), (CONSOLE, console), (CONNECT, connect)]
    services = [(service, place) for service, place in wanted if place != OFF and _is_installed(service)]
    _check_ports(listen, brokers or 1, services)
    arguments = ["--listen", listen, "--log-level", log_level, "--log-format", resolve(log_format)]
    arguments += ["--ephemeral"] if ephemeral else ["--data", data or DEFAULT_DATA]
    arguments += ["-n", str(brokers)] if brokers is not None else []
    arguments += ["--config", str(file)] if file is not None else []
    arguments += ["--metrics", metrics] if metrics is not None else []
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    folder = None if ephemeral else Path(data or DEFAULT_DATA) / ".services"
    return asyncio.run(_run(UpPlan(arguments, services, client_config, resolve(log_format), folder)))


def _is_installed(service: Service) -> bool:
    """Return whether the packages of a service are installed; if not, say how to install them."""
    if find_spec(service.package) is not None:
        return True
    echo_err(
        f"no {service.title}: it needs the extra {service.name}. "
        f"Install it from a checkout: pip install '.[{service.name}]', or use --{service.name} off"
    )
    return False


def _check_ports(listen: str, brokers: int, services: Sequence[tuple[Service, str]]) -> None:
    """Refuse an address that is not HOST:PORT or is in use, before anything is created."""
    host, port = _address("--listen", listen)
    for number in range(brokers if port else 0):
        _check_free("--listen", host, port + number)
    for service, place in services:
        _check_free(f"--{service.name}", *_address(f"--{service.name}", place))


def _address(option: str, text: str) -> tuple[str, int]:
    return listen_address(option, text)


def _check_free(option: str, host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Problem(
                f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}",
                f"nothing was started; choose another port:  ottla up {option} {host}:PORT",
                kind=PORT_IN_USE,
            ) from None


async def _run(plan: UpPlan) -> int:
    stopping = stop_on_signals()
    async with AsyncExitStack() as stack:
        brokers: list[Child] = []
        stack.push_async_callback(stop_children, brokers)
        brokers.append(await Child.start("broker", ["serve", *plan.broker_arguments], plan.log_format))
        ready = await wait_until_ready(brokers, stopping)
        if ready is None:
            return 0
        bootstrap = ",".join(ready[0].split())
        services: list[Child] = []
        stack.push_async_callback(stop_children, services)
        started = await _start_services(plan, bootstrap, services, stopping)
        if started is None:
            return 0
        _announce(bootstrap, started)
        commands = {child.name: command for child, command in zip(services, started.commands, strict=True)}
        commands["broker"] = ["serve", *plan.broker_arguments]
        together = [*brokers, *services]

        async def restart(child: Child) -> Child:
            again = await Child.start(child.name, commands[child.name], plan.log_format)
            kept = brokers if child.name == "broker" else services
            kept[[each.name for each in kept].index(child.name)] = again
            return again

        await keep_running(together, restart, stopping)
    return 0


@dataclass(slots=True)
class Started:
    """The services that have started: how, and where they are."""

    commands: list[list[str]]
    urls: list[tuple[Service, str]]


async def _start_services(
    plan: UpPlan, bootstrap: str, services: list[Child], stopping: asyncio.Event
) -> Started | None:
    """Start the registry and Connect, then the console, which shows both; None if a signal came first."""
    started = Started([], [])
    for wave in (
        [each for each in plan.services if each[0] is not CONSOLE],
        [each for each in plan.services if each[0] is CONSOLE],
    ):
        urls = {service.name: url for service, url in started.urls}
        children = []
        for service, address in wave:
            command = plan.arguments(service, address, bootstrap, urls)
            started.commands.append(command)
            children.append(await Child.start(service.name, command, plan.log_format))
            services.append(children[-1])
        texts = await wait_until_ready(children, stopping)
        if texts is None:
            return None
        started.urls += [(service, text.split()[-1]) for (service, _), text in zip(wave, texts, strict=True)]
    return started


def _announce(bootstrap: str, started: Started) -> None:
    """Print the `ready` line that scripts wait for and, on a terminal, the addresses."""
    if is_terminal(sys.stderr):
        _print_banner(bootstrap, started.urls)
    urls = " ".join(f"{service.name}={url}" for service, url in started.urls)
    click.echo(f"ready {bootstrap} {urls}".rstrip())
    sys.stdout.flush()


def _print_banner(bootstrap: str, urls: Sequence[tuple[Service, str]]) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("broker", Text(bootstrap, style="bold"))
    for service, url in urls:
        facts.add_row(service.title, Text(url, style="bold" if service is CONSOLE else ""))
    facts.add_row("try", Text("echo hello | ottla produce greetings"))
    facts.add_row("stop", Text("Ctrl-C"))
    title = f"[bold]Ottla {__version__}[/bold]"
    Console(stderr=True).print(Panel(facts, title=title, title_align="left", expand=False, padding=(0, 2)))
    for service, url in urls:
        if service is CONSOLE:
            echo_err(f"The console is at {url}")
