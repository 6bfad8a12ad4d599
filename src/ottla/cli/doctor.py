"""`ottla doctor`: check this machine and the way to the cluster, and say how to fix what is wrong."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from ottla.cli.checks.findings import FAILED, OK, WARNING, Finding
from ottla.cli.serve.command import DEFAULT_DATA
from ottla.cli.support import session
from ottla.cli.support.options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    bootstrap_option,
    config_file_option,
    format_option,
    is_terminal,
)
from ottla.cli.support.output import count, print_json, print_table

TIMEOUT_MS = 10_000


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--write", is_flag=True, help="Also send a record through a temporary topic.")
@click.option("--no-broker", is_flag=True, help="Check this machine only.")
@click.option(
    "--zookeeper", metavar="HOST:PORT", help="Also check this ensemble; several servers with commas."
)
@config_file_option("Also check the security of this broker configuration.")
@click.option(
    "-d",
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=DEFAULT_DATA,
    show_default=True,
    help="The data directory of a broker.",
)
@format_option
@bootstrap_option
def doctor(
    write: bool,
    no_broker: bool,
    zookeeper: str | None,
    file: Path | None,
    data: Path,
    output_format: str,
    bootstrap: str,
) -> int:
    """Find problems, and say how to fix them.

    Checks this machine (disk, limits, Java, Spark) and the way to the cluster: DNS, TCP, TLS, SASL, the
    addresses that brokers advertise; what `ottla cluster health` finds (brokers, ZooKeeper, disks, writes,
    groups, transactions); the clocks of all brokers; weak security and certificates that expire. Exits with
    1 if something is wrong. Without a broker it checks the rest.

    \b
    ottla doctor
    ottla doctor -b kafka.example.org:9093 -X security.protocol=SSL --write
    ottla doctor --no-broker --config server.properties
    """
    found = asyncio.run(_examine(bootstrap, write, no_broker, zookeeper, data))
    if file is not None:
        from ottla.cli.checks.security import check_config, now_utc
        from ottla.common.clock import SystemClock

        found += check_config(file, now_utc(SystemClock().wall_ms()))
    if output_format == "json":
        print_json([each.as_json() for each in found])
    else:
        print_table(["check", "state", "what"], [each.as_row() for each in found])
    wrong = sum(each.state == FAILED for each in found)
    warnings = sum(each.state == WARNING for each in found)
    if output_format == "table":
        well = "all is well" if not wrong else f"{count(wrong, 'problem')}"
        click.echo(f"{well}, {count(warnings, 'warning')}" if warnings else well, err=True)
    return 1 if wrong else 0


async def _examine(
    bootstrap: str, write: bool, no_broker: bool, zookeeper: str | None, data: Path
) -> list[Finding]:
    from ottla.cli.checks.broker import check_cluster
    from ottla.cli.checks.cluster import check_health
    from ottla.cli.checks.machine import check_machine
    from ottla.cli.checks.record import check_clock, check_record
    from ottla.cli.checks.security import check_brokers
    from ottla.cli.checks.zookeeper import check_zookeeper

    found: list[Finding] = []
    if not no_broker:
        options = session.options_of(bootstrap, patience_ms=TIMEOUT_MS)
        _print_step(f"checking {bootstrap}")
        found += [each async for each in check_cluster(options)]
        if any(each.check == "advertised" and each.state == OK for each in found):
            found += [each async for each in check_health(options)]
            found += [each async for each in check_brokers(options)]
        if all(each.state != FAILED for each in found):
            found += [each async for each in check_record(options)] if write else [await check_clock(options)]
    if zookeeper is not None:
        _print_step(f"checking ZooKeeper at {zookeeper}")
        found += [each async for each in check_zookeeper(zookeeper)]
    _print_step("checking this machine")
    is_up = any(each.check == "TCP" and each.state == OK for each in found)
    host, _, port = DEFAULT_BOOTSTRAP.rpartition(":")
    wants_port = not is_up and bootstrap == DEFAULT_BOOTSTRAP
    found += await asyncio.to_thread(
        lambda: list(check_machine(data, (host, int(port)) if wants_port else None))
    )
    return _without_default_broker(found, bootstrap)


def _without_default_broker(found: list[Finding], bootstrap: str) -> list[Finding]:
    """Downgrade a missing broker at the default address to a warning: perhaps none is needed yet."""
    if bootstrap != DEFAULT_BOOTSTRAP:
        return found
    fix = f"start one: ottla serve; or name yours with -b or {BOOTSTRAP_VARIABLE}"
    return [
        each._replace(state=WARNING, fix=fix) if each.check == "TCP" and each.state == FAILED else each
        for each in found
    ]


def _print_step(what: str) -> None:
    if is_terminal(sys.stderr):
        click.echo(click.style(f"{what} ...", dim=True), err=True)
