"""`ottla pipeline unit`: a systemd unit that keeps pipelines running."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from ottla.cli.generated.systemd import quoted

UNIT = """\
# Pipelines as a service. As root:
#   ottla pipeline unit {paths} > /etc/systemd/system/{name}.service
#   systemctl daemon-reload && systemctl enable --now {name}
# Checkpoints, tables and state are in /var/lib/{name}. A flow that fails is restarted by its driver, after 1
# to 60 seconds; a driver that ends, by systemd, after 5 seconds to 5 minutes.

[Unit]
Description=Ottla pipelines on Spark: {paths}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
Environment=OTTLA_PIPELINES=/var/lib/{name} HOME=/var/lib/{name}
{user}
StateDirectory={name}
StateDirectoryMode=0750
Restart=on-failure
RestartSec=5
RestartSteps=6
RestartMaxDelaySec=300
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=120
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
UMask=0027

[Install]
WantedBy=multi-user.target
"""


@click.command("unit")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--name", default="ottla-pipelines", show_default=True, help="The name of the service.")
@click.option("--user", metavar="NAME", help="The user of the service.  [default: a dynamic user]")
@click.option("-b", "--bootstrap", metavar="HOST:PORT", help="Passed on to run.")
@click.option("--master", metavar="URL", help="Passed on to run.")
@click.option("--metrics", metavar="HOST:PORT", help="Passed on to run.")
def unit_command(
    paths: tuple[Path, ...],
    name: str,
    user: str | None,
    bootstrap: str | None,
    master: str | None,
    metrics: str | None,
) -> None:
    """Generate a systemd unit that runs pipelines, restarts them with growing pauses, and stops them cleanly.

    \b
    ottla pipeline unit /opt/shop --metrics 0.0.0.0:9404
    """
    given = {"-b": bootstrap, "--master": master, "--metrics": metrics}
    options = [word for option, value in given.items() if value for word in (option, value)]
    program = shutil.which(sys.argv[0]) or sys.argv[0]
    words = [program, "pipeline", "run", *(str(each.absolute()) for each in paths), *options]
    text = UNIT.format(
        command=" ".join(map(quoted, words)),
        name=name,
        paths=" ".join(str(each.absolute()) for each in paths),
        user="DynamicUser=yes" if user is None else f"User={user}",
    )
    click.echo(text, nl=False)
