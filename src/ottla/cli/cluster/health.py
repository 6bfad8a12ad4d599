"""`ottla cluster health`: once, repeatedly, or as the check before a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import click

from ottla.cli.cluster.view import print_examination
from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import echo_err, print_json
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_health import Examination, check_restart, examine_cluster
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.protocol.errors import KafkaError

UNKNOWN_EXIT = 3
PATIENCE_MS = 8_000
WAIT_INTERVAL_S = 1.0


@click.command(short_help="Check the cluster; exit code 1 if something is wrong.")
@click.option(
    "--watch", "every_s", type=click.FloatRange(0.1), metavar="SECONDS", help="Repeat until Ctrl-C."
)
@click.option(
    "--safe-to-restart",
    "broker",
    type=click.IntRange(0),
    metavar="BROKER",
    help="Check whether this broker can be restarted without refusing writes.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Wait up to so long until the answer is yes.",
)
@format_option
@bootstrap_option
def health(
    every_s: float | None, broker: int | None, wait_s: float | None, output_format: str, bootstrap: str
) -> None:
    """Check the cluster in detail: brokers, controller, ZooKeeper, disks, clocks, partitions, groups.

    Every finding comes with the command to type next. Exit codes: 0 all is well (there may be warnings), 1
    something is wrong (or the broker cannot be restarted now), 3 no broker answers.

    \b
    ottla cluster health
    ottla cluster health --wait 60                     until all is well
    ottla cluster health --watch 5
    ottla cluster health --safe-to-restart 2 --wait 300 && systemctl restart ottla
    """
    if every_s is not None and (broker is not None or wait_s is not None):
        raise click.UsageError("--watch excludes --safe-to-restart and --wait")

    def judge(found: Examination) -> bool:
        return _show_restart(found, broker, output_format, is_last=False)

    try:
        code = asyncio.run(_watch(bootstrap, every_s, output_format)) if every_s is not None else None
        if code is None:
            found = asyncio.run(_until(bootstrap, judge, wait_s or 0.0))
            is_well = _show_restart(found, broker, output_format, is_last=True)
            code = 0 if is_well else 1
    except ClientError as error:
        raise _unknown(error) from None
    except KafkaError as error:
        raise session.error_response(error) from None
    if code:
        raise SystemExit(code)


class Unknown(Problem):
    """No broker answers: the state of the cluster is unknown."""

    exit_code = UNKNOWN_EXIT


def _unknown(error: ClientError) -> Unknown:
    problem = session.no_response(error)
    return Unknown(f"the cluster's state is unknown: {problem.message}", *problem.hints, kind=problem.kind)


async def _ask(bootstrap: str) -> Examination:
    options = session.options_of(bootstrap, patience_ms=PATIENCE_MS)
    async with Cluster(options=options, waits_for_brokers=True) as connected:
        return await examine_cluster(connected)


async def _until(bootstrap: str, is_well: Callable[[Examination], bool], wait_s: float) -> Examination:
    """Ask until all is well, or the time is over; return the last answer."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            found = await _ask(bootstrap)
        except ClientError:
            if time.monotonic() >= deadline:
                raise
        else:
            if is_well(found) or time.monotonic() >= deadline:
                return found
        await asyncio.sleep(WAIT_INTERVAL_S)


async def _watch(bootstrap: str, every_s: float, output_format: str) -> int:
    ask: Callable[[], Awaitable[Examination]] = lambda: _ask(bootstrap)  # noqa: E731
    while True:
        now = time.strftime("%H:%M:%S")
        try:
            found = await ask()
        except ClientError as error:
            echo_err(f"{now} {_unknown(error).message}")
        else:
            if output_format == "json":
                print_json({"time": now, **found.as_json()})
            else:
                click.echo(f"{now} {'all is well' if found.is_healthy else 'something is wrong'}")
                if not found.is_healthy or found.findings:
                    print_examination(found)
        await asyncio.sleep(every_s)


def _show_restart(found: Examination, broker: int | None, output_format: str, *, is_last: bool) -> bool:
    """Return whether the answer is yes; print it if it is the last one."""
    if broker is None:
        if is_last:
            print_json(found.as_json()) if output_format == "json" else print_examination(found)
        return found.is_healthy
    if broker not in found.info.brokers:
        known = ", ".join(map(str, found.info.brokers))
        raise Problem(f"there is no broker {broker}", f"the brokers are {known}")
    checked = check_restart(found, broker)
    if not is_last:
        return checked.is_safe
    if output_format == "json":
        print_json(checked.as_json())
        return checked.is_safe
    for note in checked.notes:
        click.echo(click.style(note, fg="yellow"))
    if checked.is_safe:
        click.echo(click.style(f"broker {broker} can be restarted", fg="green"))
    else:
        click.echo(click.style(f"broker {broker} must not be restarted now:", fg="red"))
        for reason in checked.reasons:
            click.echo(f"  {reason}")
        click.echo(f"  next: ottla cluster health --safe-to-restart {broker} --wait 300")
    return checked.is_safe
