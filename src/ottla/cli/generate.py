"""`ottla generate`: configuration files for monitoring and deployment."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from ottla import __version__
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem

METRICS = "127.0.0.1:9644"
LAG_SECONDS = 300
HELP = {"help_option_names": ["-h", "--help"]}

_output = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Output file.  [default: stdout]",
)


@click.group(cls=LazyGroup, context_settings=HELP)
def generate() -> None:
    """Generate files for monitoring and deployment.

    \b
    ottla generate grafana -o ottla-dashboard.json
    ottla generate prometheus -o . --target one:9644 --target two:9644
    ottla generate systemd --listen :9092 --advertise example.org:9092
    ottla generate compose -o compose.yaml
    ottla generate kubernetes -n 3 -o ottla.yaml
    """


@generate.command(short_help="Generate a Grafana dashboard.")
@click.option("--title", default="Ottla", show_default=True, help="The title of the dashboard.")
@_output
def grafana(title: str, output: Path | None) -> None:
    """Generate a Grafana dashboard: traffic, lag in seconds, requests, replicas.

    \b
    ottla generate grafana -o ottla-dashboard.json
    """
    from ottla.cli.generated.grafana import dashboard

    _write(dashboard(title), output)


@generate.command(short_help="Generate a scrape configuration and alert rules.")
@click.option(
    "-t",
    "--target",
    "targets",
    multiple=True,
    metavar="HOST:PORT",
    help=f"The metrics address of a broker; repeatable.  [default: {METRICS}]",
)
@click.option("--alerts", is_flag=True, help="Print the alert rules instead of the scrape configuration.")
@click.option(
    "--lag-seconds",
    type=click.IntRange(1),
    default=LAG_SECONDS,
    show_default=True,
    metavar="N",
    help="Alert when a group's lag is larger.",
)
@click.option(
    "--runbooks", metavar="URL", help="Where the alerts link to.  [default: Ottla's operations page]"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write both files into this directory.",
)
def prometheus(
    targets: tuple[str, ...], alerts: bool, lag_seconds: int, runbooks: str | None, output: Path | None
) -> None:
    """Generate a scrape configuration, and alert rules: lag, replicas, controller, disk.

    \b
    ottla generate prometheus -o . -t one:9644 -t two:9644
    """
    from ottla.cli.generated.prometheus import ALERTS_FILE, CONFIG_FILE, RUNBOOKS, alert_rules, scrape_config

    rules = alert_rules(lag_seconds, runbooks or RUNBOOKS)
    if output is None:
        _write(rules if alerts else scrape_config(targets or (METRICS,)), None)
        return
    _write(scrape_config(targets or (METRICS,)), output / CONFIG_FILE)
    _write(rules, output / ALERTS_FILE)


@generate.command(short_help="Generate a systemd unit for one broker.")
@click.option("--program", metavar="PATH", help="The program.  [default: this one]")
@click.option(
    "--name",
    default="ottla",
    show_default=True,
    help="The name of the service, and of its data directory in /var/lib.",
)
@click.option("--user", metavar="NAME", help="The user of the service.  [default: a dynamic user]")
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
    """Generate a systemd unit for one broker, with minimal privileges.

    \b
    ottla generate systemd --listen :9092 --advertise example.org:9092
    """
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
    help="The package that pip installs into the image; a wheel beside the file, or a source directory, is "
    "copied.  [default: the source of this ottla, or else ottla[zookeeper] in its version]",
)
@click.option(
    "--port",
    type=click.IntRange(1024, 65_000),
    default=19_092,
    show_default=True,
    metavar="N",
    help="The port of the first broker for clients outside of the containers.",
)
@_output
def compose(brokers: int, package: str | None, port: int, output: Path | None) -> None:
    """Generate a Compose file: brokers and a ZooKeeper.

    \b
    ottla generate compose
    """
    from ottla.cli.generated.compose import compose as compose_file
    from ottla.cli.generated.compose import own_source

    chosen = package or own_source() or f"ottla[zookeeper]=={__version__}"
    _write(compose_file(brokers, chosen, port), output)


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
    "--zookeepers",
    type=click.Choice(["1", "3", "5"]),
    default="3",
    show_default=True,
    help="How many ZooKeepers.",
)
@click.option(
    "--image",
    metavar="NAME",
    default=f"ottla:{__version__}",
    show_default="ottla:VERSION",
    help="The image, built from the Containerfile.",
)
@click.option(
    "--namespace", metavar="NAME", default="ottla", show_default=True, help="The namespace of the brokers."
)
@click.option(
    "--disk", metavar="SIZE", default="20Gi", show_default=True, help="The size of each pod's volume."
)
@_output
def kubernetes(
    brokers: int, zookeepers: str, image: str, namespace: str, disk: str, output: Path | None
) -> None:
    """Generate Kubernetes manifests: brokers and ZooKeepers.

    \b
    ottla generate kubernetes --image example.org/ottla:1 -o ottla.yaml
    """
    from ottla.cli.generated.kubernetes import manifests

    _write(manifests(brokers, int(zookeepers), image, namespace, disk), output)


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
            f"cannot write {output}: {error.strerror or error}",
            "choose another file with -o, or leave out -o to print it",
        ) from None
    echo_err(f"wrote {output}")
