"""`ottla serve`: run a broker.

The options are short names for Kafka's keys: each becomes one entry of the raw configuration that the broker
is built from. `--set` and the named options override the file; they must not contradict each other.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla import __version__
from ottla.cli.support.options import (
    DEFAULT_BOOTSTRAP,
    broker_settings_option,
    config_file_option,
    is_terminal,
    listen_port,
    log_options,
)
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem, need_package
from ottla.cli.support.profiles import READABLE_BY_OTHERS, is_secret_of_broker
from ottla.cli.support.start_problems import could_not_start
from ottla.common.config.metrics_keys import AUTO
from ottla.common.log_format import resolve, set_up_logging

if TYPE_CHECKING:
    from ottla.broker import BrokerAddresses
    from ottla.common.listeners import Address

log = logging.getLogger(__name__)

# The output when the broker is ready: a line for programs, and a banner for people.


def announce(addresses: BrokerAddresses) -> None:
    """Print the `ready` line that scripts wait for and, on a terminal, the addresses."""
    if is_terminal(sys.stderr):
        _print_banner(addresses)
    click.echo(f"ready {' '.join(str(address) for _, address in addresses.listeners)}")
    sys.stdout.flush()


def reachable(address: Address) -> Address:
    """Return the address that a browser on this machine can use for `address`."""
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


if TYPE_CHECKING:
    from ottla.common.config.declaration import ConfigError

DEFAULT_DATA = "./ottla-data"
DEFAULT_LISTEN = "127.0.0.1:9092"
DATA_KEYS = frozenset({"log.dirs", "log.dir"})
DEFAULT_PROTOCOLS = "PLAINTEXT:PLAINTEXT"
LISTENER_NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
LISTENER_KEYS = ("listeners", "advertised.listeners")
MAX_BROKERS = 20
BOOTSTRAP_KEY = "ottla.bootstrap.scram"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-d",
    "--data",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False),
    help=f"The data directory; repeatable, one for each disk.  [default: {DEFAULT_DATA}]",
)
@click.option(
    "-l",
    "--listen",
    multiple=True,
    metavar="HOST:PORT",
    help="The listen address, also NAME://HOST:PORT for a listener with TLS or SASL; repeatable. "
    f"Port 0 uses a free one.  [default: {DEFAULT_LISTEN}]",
)
@click.option(
    "-a",
    "--advertise",
    multiple=True,
    metavar="HOST:PORT",
    help="The advertised address, one for each --listen.  [default: as --listen]",
)
@click.option(
    "--node-id",
    type=click.IntRange(0),
    metavar="N",
    help="The node id of this broker, with -n of the first one.  [default: 1]",
)
@config_file_option("A Java .properties file with Kafka's keys.")
@broker_settings_option("A Kafka config key; overrides the file; repeatable.")
@log_options
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="The address of /metrics, /healthz and /readyz, or off.  [default: port 9644, if it is free]",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT",
    help="The ZooKeeper of the cluster to join; several with commas.  [default: single broker]",
)
@click.option(
    "-n",
    "brokers",
    type=click.IntRange(1, MAX_BROKERS),
    metavar="N",
    help="Run a cluster of N brokers here, with a ZooKeeper unless --zookeeper names one.",
)
@click.option(
    "--add-scram",
    multiple=True,
    metavar="MECHANISM=[name=USER,password=PASSWORD]",
    help="A SCRAM user that is added if it does not exist, such as the first administrator; repeatable.",
)
@click.option("--ephemeral", is_flag=True, help="Use a temporary data directory.")
def serve(
    data: tuple[str, ...],
    listen: tuple[str, ...],
    advertise: tuple[str, ...],
    node_id: int | None,
    file: Path | None,
    settings: dict[str, str],
    log_level: str,
    log_format: str,
    metrics: str | None,
    zookeeper: str | None,
    brokers: int | None,
    add_scram: tuple[str, ...],
    ephemeral: bool,
) -> int:
    """Run a broker until Ctrl-C or SIGTERM.

    Prints one line that starts with `ready` to standard output when it accepts requests.

    \b
    ottla serve
    ottla serve --data /srv/ottla --listen :9092 --advertise example.org:9092
    ottla serve --data /disk1/ottla --data /disk2/ottla
    ottla serve --ephemeral --listen 127.0.0.1:0 --set num.partitions=6
    ottla serve -n 3
    ottla serve --node-id 2 --zookeeper zk1:2181,zk2:2181 -l :9092 -a two:9092
    """
    if ephemeral and (data or not DATA_KEYS.isdisjoint(settings)):
        raise click.UsageError("--ephemeral excludes --data and --set log.dirs")
    if add_scram:
        settings = {**settings, BOOTSTRAP_KEY: " ".join(add_scram)}
    if brokers is not None or zookeeper is not None:
        need_package("kazoo", "zookeeper")
    if brokers is not None:
        if advertise or len(listen) > 1 or len(data) > 1:
            raise click.UsageError("-n excludes --advertise, a second --listen and a second --data")
        first_id = 1 if node_id is None else node_id
        return _serve_cluster(
            brokers,
            first_id,
            data[0] if data else None,
            listen,
            zookeeper,
            settings,
            file,
            log_level,
            log_format,
            metrics,
            ephemeral,
        )
    from ottla import broker
    from ottla.common.config.declaration import ConfigError
    from ottla.common.config.properties import read_properties

    try:
        from_file = read_properties(file) if file is not None else {}
        raw = raw_config(
            from_file,
            settings,
            data=data,
            listen=listen,
            advertise=advertise,
            node_id=node_id,
            zookeeper=zookeeper,
            metrics=metrics,
        )
        set_up_logging(log_level, log_format, {"node_id": raw.get("node.id", raw.get("broker.id", "1"))})
        if file is not None:
            _warn_of_readers(file, from_file)
        if ephemeral:
            raw = {key: value for key, value in raw.items() if key not in DATA_KEYS}
        return broker.run(raw, ephemeral=ephemeral, on_ready=announce)
    except ConfigError as error:
        raise misconfigured(error) from None
    except broker.StartError as error:
        raise could_not_start(error) from None


def _warn_of_readers(file: Path, keys: Iterable[str]) -> None:
    """Log a warning if a file has secrets, and others can read it."""
    if any(map(is_secret_of_broker, keys)) and file.stat().st_mode & READABLE_BY_OTHERS:
        log.warning("others can read %s, which has passwords; run: chmod 600 %s", file, file)


def _serve_cluster(
    brokers: int,
    first_id: int,
    data: str | None,
    listen: tuple[str, ...],
    zookeeper: str | None,
    settings: dict[str, str],
    file: Path | None,
    log_level: str,
    log_format: str,
    metrics: str | None,
    ephemeral: bool,
) -> int:
    from ottla.cli.serve.cluster import ClusterPlan, run_cluster
    from ottla.common.config.declaration import ConfigError
    from ottla.common.config.properties import read_properties

    try:
        from_file = read_properties(file) if file is not None else {}
    except ConfigError as error:
        raise misconfigured(error) from None
    where = listen[0] if listen else DEFAULT_LISTEN
    host, _, port = _checked("--listen", where).rpartition(":")
    scheme = where.strip().partition("://")[0] + "://" if "://" in where else ""
    set_to = {**from_file, **settings}
    plan = ClusterPlan(
        brokers,
        Path(data or DEFAULT_DATA),
        scheme + host,
        int(port),
        zookeeper,
        settings,
        file,
        log_level,
        resolve(log_format),
        metrics or set_to.get("ottla.metrics.listen", AUTO),
        first_id,
        {} if listen else {key: set_to[key] for key in LISTENER_KEYS if key in set_to},
    )
    return run_cluster(plan, ephemeral=ephemeral)


def raw_config(
    from_file: dict[str, str],
    settings: dict[str, str],
    *,
    data: tuple[str, ...] = (),
    listen: tuple[str, ...] = (),
    advertise: tuple[str, ...] = (),
    node_id: int | None = None,
    zookeeper: str | None = None,
    metrics: str | None = None,
) -> dict[str, str]:
    """Return Kafka's keys and values for the options of one command line."""
    raw = {**from_file, **settings}
    named: dict[str, str] = {}
    if data:
        named["log.dirs"] = ",".join(data)
    if node_id is not None:
        named["node.id"] = str(node_id)
    if zookeeper is not None:
        named["zookeeper.connect"] = zookeeper
    if metrics is not None:
        named["ottla.metrics.listen"] = metrics
    if listen:
        named["listeners"] = _listeners("--listen", listen)
        protocols = raw.get("listener.security.protocol.map", DEFAULT_PROTOCOLS)
        extra = [
            f",{_listener_name(index)}:PLAINTEXT"
            for index, text in enumerate(listen)
            if index and "://" not in text
        ]
        if extra:
            named["listener.security.protocol.map"] = protocols + "".join(extra)
    if advertise:
        if len(advertise) > max(1, len(listen)):
            raise click.UsageError("there are more --advertise than --listen options")
        named["advertised.listeners"] = _listeners("--advertise", advertise)
    options = {"log.dirs": "--data", "node.id": "--node-id", "listeners": "--listen"}
    for key, option in {
        **options,
        "zookeeper.connect": "--zookeeper",
        "ottla.metrics.listen": "--metrics",
    }.items():
        if key in named and key in settings:
            raise click.UsageError(f"{option} and --set {key} exclude each other")
    return {**_without_older_names(raw, named), **named}


def misconfigured(error: ConfigError) -> Problem:
    """Return the error message for a rejected configuration."""
    hints = []
    if error.key == "advertised.listeners":
        hints.append("set an address that clients can reach: --advertise HOST:PORT")
    elif (file := click.get_current_context().params.get("file")) is not None:
        hints.append(f"validate all of it:  ottla config validate {file}")
    else:
        hints.append("every key, its values and its default:  docs/configuration.md")
    return Problem(str(error), *hints, kind=BAD_CONFIG)


def _without_older_names(raw: dict[str, str], named: dict[str, str]) -> dict[str, str]:
    """Return `raw` without keys that an option overrides under another name."""
    older = {"log.dirs": "log.dir", "node.id": "broker.id"}
    dropped = {old for new, old in older.items() if new in named}
    return {key: value for key, value in raw.items() if key not in dropped}


def _listeners(option: str, addresses: tuple[str, ...]) -> str:
    names = [text.strip().partition("://")[0] if "://" in text else "" for text in addresses]
    return ",".join(
        f"{names[index] or _listener_name(index)}://{_checked(option, text)}"
        for index, text in enumerate(addresses)
    )


def _listener_name(index: int) -> str:
    return "PLAINTEXT" if index == 0 else f"PLAINTEXT_{index + 1}"


def _checked(option: str, text: str) -> str:
    name, _, address = text.strip().rpartition("://")
    host, colon, port = address.rpartition(":")
    if not colon:
        host, port = port, "9092"
    valid_host = (
        not name.strip(LISTENER_NAME)
        and "/" not in host
        and (":" not in host or (host.startswith("[") and host.endswith("]")))
    )
    if not (port.isascii() and port.isdigit()) or not valid_host:
        raise click.UsageError(f"{option}: {text!r} is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    listen_port(option, port)
    return f"{host}:{port}"
