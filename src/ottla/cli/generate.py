"""`ottla generate`: files for the programs around a broker, made from what it really serves."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from ottla import __version__
from ottla.cli.support.output import talk
from ottla.cli.support.problems import Problem

METRICS = "127.0.0.1:9644"
LAG_SECONDS = 300
HELP = {"help_option_names": ["-h", "--help"]}

_output = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write.  [default: stdout]",
)


@click.group(context_settings=HELP)
def generate() -> None:
    """Write files for Grafana, Prometheus, systemd and Docker Compose.

    \b
    ottla generate grafana -o ottla-dashboard.json
    ottla generate prometheus -o . --target one:9644 --target two:9644
    ottla generate systemd --listen :9092 --advertise example.org:9092
    ottla generate compose -o compose.yaml
    """


@generate.command(short_help="Write a dashboard for Grafana.")
@click.option("--title", default="Ottla", show_default=True, help="What the dashboard is called.")
@_output
def grafana(title: str, output: Path | None) -> None:
    """Write a dashboard, to be imported into Grafana: traffic, lag in seconds, requests, replicas."""
    from ottla.cli.generated.grafana import dashboard

    _write(dashboard(title), output)


@generate.command(short_help="Write a scrape configuration and alert rules.")
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="HOST:PORT",
    help=f"Where a broker serves metrics; repeatable.  [default: {METRICS}]",
)
@click.option("--alerts", is_flag=True, help="Print the alert rules in place of the scrape configuration.")
@click.option(
    "--lag-seconds",
    type=click.IntRange(1),
    default=LAG_SECONDS,
    show_default=True,
    metavar="N",
    help="How far behind a group may be.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write both files into this folder.",
)
def prometheus(targets: tuple[str, ...], alerts: bool, lag_seconds: int, output: Path | None) -> None:
    """Write a scrape configuration, and alert rules: lag, replicas, controller, disk."""
    from ottla.cli.generated.prometheus import ALERTS_FILE, CONFIG_FILE, alert_rules, scrape_config

    if output is None:
        _write(alert_rules(lag_seconds) if alerts else scrape_config(targets or (METRICS,)), None)
        return
    _write(scrape_config(targets or (METRICS,)), output / CONFIG_FILE)
    _write(alert_rules(lag_seconds), output / ALERTS_FILE)


@generate.command(short_help="Write a unit that runs one broker.")
@click.option("--program", metavar="PATH", help="The program.  [default: this one]")
@click.option(
    "--name", default="ottla", show_default=True, help="Of the service, and of its data in /var/lib."
)
@click.option("--user", metavar="NAME", help="Who runs it.  [default: a user that systemd makes for it]")
@click.option("-l", "--listen", metavar="HOST:PORT", help="Passed on to serve.")
@click.option("-a", "--advertise", metavar="HOST:PORT", help="Passed on to serve.")
@click.option("--node-id", type=click.IntRange(0), metavar="N", help="Passed on to serve.")
@click.option("--zookeeper", metavar="HOST:PORT", help="Passed on to serve.")
@click.option("--metrics", metavar="HOST:PORT", help="Passed on to serve.")
@click.option("-c", "--config", metavar="FILE", help="Passed on to serve.")
@_output
def systemd(
    program: str | None, name: str, user: str | None, output: Path | None, **options: str | int | None
) -> None:
    """Write a unit that runs one broker, with as few rights as it can do with."""
    from ottla.cli.generated.systemd import unit

    arguments: list[str] = []
    for option, value in options.items():
        if value is not None:
            arguments += [f"--{option.replace('_', '-')}", str(value)]
    _write(unit(program or _this_program(), name, user, arguments), output)


@generate.command()
@click.option(
    "-n",
    "brokers",
    type=click.IntRange(1, 20),
    default=3,
    show_default=True,
    metavar="N",
    help="How many brokers.",
)
@click.option(
    "--package",
    metavar="WHAT",
    help="What pip installs into the image; a wheel beside the file, or a folder with the source, is copied "
    f"into it.  [default: the source of this ottla, or else ottla[zookeeper]=={__version__}]",
)
@click.option(
    "--port",
    type=click.IntRange(1024, 65_000),
    default=19_092,
    show_default=True,
    metavar="N",
    help="Where clients outside of the containers reach the first broker.",
)
@_output
def compose(brokers: int, package: str | None, port: int, output: Path | None) -> None:
    """Write a Compose file: brokers and a ZooKeeper, in containers."""
    from ottla.cli.generated.compose import compose as compose_file
    from ottla.cli.generated.compose import own_source

    chosen = package or own_source() or f"ottla[zookeeper]=={__version__}"
    _write(compose_file(brokers, chosen, port), output)


def _this_program() -> str:
    found = shutil.which(sys.argv[0]) or shutil.which("ottla")
    return str(Path(found).absolute()) if found else "/usr/local/bin/ottla"


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)
    except OSError as error:
        raise Problem(
            f"{output} cannot be written: {error.strerror or error}",
            "write it elsewhere with -o, or leave -o out to see it",
        ) from None
    talk(f"wrote {output}")
