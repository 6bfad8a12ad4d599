"""`ottla cluster maintenance`: take a broker out of service for a while, and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable
from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_admin import ClusterAdmin, ClusterInfo
from ottla.client.admin.health import broker_reports
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition

KEY = "ottla.broker.maintenance"
POLL_S = 0.3
LINE_EVERY_S = 5.0


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]}, short_help="Take a broker out of service."
)
def maintenance() -> None:
    """Take a broker out of service: others lead its partitions, and it gets no new replicas.

    Its replicas stay in sync. The state survives restarts of the broker, until `stop`.

    \b
    ottla cluster maintenance start 2
    """


_broker = click.argument("broker", type=click.IntRange(0))


@maintenance.command(short_help="Move leadership away, and keep new replicas off.")
@_broker
@click.option(
    "--timeout", "timeout_s", default=60.0, show_default=True, metavar="SECONDS", help="How long to wait."
)
@format_option
@bootstrap_option
def start(broker: int, timeout_s: float, output_format: str, bootstrap: str) -> None:
    """Start the maintenance of BROKER, and wait until others lead its partitions.

    A partition without another in-sync replica keeps its leader, and is listed. Exits with 1 then.

    \b
    ottla cluster maintenance start 2
    """

    async def command(connected: Cluster) -> tuple[ClusterInfo, list[TopicPartition], set[int]]:
        info = await ClusterAdmin(connected).describe()
        _check(info, broker)
        aside = await in_maintenance(connected, info) - {broker}
        await set_maintenance(connected, broker, is_on=True)
        return *await drained(connected, broker, timeout_s, aside), aside

    info, stuck, aside = session.run(bootstrap, command)
    if output_format == "json":
        print_json({**_row(info, broker, {broker}), "cannot_be_moved": list(map(str, stuck))})
    else:
        echo_err(f"broker {broker} is in maintenance; end it with:  ottla cluster maintenance stop {broker}")
    if stuck:
        raise _still_leads(info, broker, stuck, aside)


def _still_leads(info: ClusterInfo, broker: int, stuck: list[TopicPartition], aside: set[int]) -> Problem:
    """Return why a broker still leads, and what helps: another broker's maintenance may be the reason."""
    others = {at: {*info.partitions[at].isr} - {broker} for at in stuck}
    closed = sorted(set().union(*others.values()) & aside)
    reasons = []
    if not all(others.values()):
        reasons.append("no other replica is in sync")
    if closed:
        where = f"broker {closed[0]} is" if len(closed) == 1 else f"brokers {', '.join(map(str, closed))} are"
        reasons.append(f"{where} in maintenance too, and lead only what no other can")
    hints = [f"to let broker {each} lead again:  ottla cluster maintenance stop {each}" for each in closed]
    return Problem(
        f"broker {broker} still leads {count(len(stuck), 'partition')}: {'; '.join(reasons) or 'it is slow'}",
        *map(str, stuck[:20]),
        *hints,
        "they are not available while it is stopped; see: ottla cluster health",
    )


@maintenance.command(short_help="Let a broker lead again.")
@_broker
@click.option("--no-elect", is_flag=True, help="Leave leadership where it is.")
@format_option
@bootstrap_option
def stop(broker: int, no_elect: bool, output_format: str, bootstrap: str) -> None:
    """End the maintenance of BROKER, and return the partitions to it that prefer it.

    \b
    ottla cluster maintenance stop 2
    """

    async def command(connected: Cluster) -> ClusterInfo:
        admin = ClusterAdmin(connected)
        _check(await admin.describe(), broker)
        await set_maintenance(connected, broker, is_on=False)
        info = await admin.describe()
        due = [
            at
            for at, each in info.partitions.items()
            if info.target(at)[0] == broker and each.leader != broker and broker in each.isr
        ]
        if due and not no_elect:
            await admin.elect_leaders(due)
            echo_err(f"{count(len(due), 'partition')} led by broker {broker} again")
        return await admin.describe()

    info = session.run(bootstrap, command)
    if output_format == "json":
        print_json(_row(info, broker, set()))
    else:
        echo_err(f"broker {broker} is in service")


@maintenance.command(short_help="Show which brokers are in maintenance.")
@click.argument("broker", type=click.IntRange(0), required=False)
@format_option
@bootstrap_option
def status(broker: int | None, output_format: str, bootstrap: str) -> None:
    """Show which brokers are in maintenance, and what they still lead and hold.

    \b
    ottla cluster maintenance status
    """

    async def command(connected: Cluster) -> tuple[ClusterInfo, set[int]]:
        info = await ClusterAdmin(connected).describe()
        if broker is not None:
            _check(info, broker)
        return info, await in_maintenance(connected, info)

    info, aside = session.run(bootstrap, command)
    rows = [_row(info, each, aside) for each in info.brokers if broker in (None, each)]
    if output_format == "json":
        print_json(rows)
        return
    columns = ["broker", "state", "leads", "holds", "in sync"]
    print_table(columns, [list(map(str, row.values())) for row in rows], right=["broker", *columns[2:]])


async def set_maintenance(connected: Cluster, broker: int, *, is_on: bool) -> None:
    """Start or end the maintenance of a broker."""
    admin = TopicAdmin(connected)
    if is_on:
        await admin.alter_broker_configs(broker, set_to={KEY: "true"})
    else:
        await admin.alter_broker_configs(broker, unset=(KEY,))


async def drained(
    connected: Cluster, broker: int, timeout_s: float, aside: Collection[int] = ()
) -> tuple[ClusterInfo, list[TopicPartition]]:
    """Wait until a broker leads nothing that others could lead; return what it leads then.

    The brokers `aside` are in maintenance, too: they take no leadership.
    """
    admin = ClusterAdmin(connected)
    deadline = time.monotonic() + timeout_s
    said = time.monotonic()
    while True:
        info = await admin.describe()
        leads = [at for at, each in info.partitions.items() if each.leader == broker]
        movable = [at for at in leads if {*info.partitions[at].isr} - {broker, *aside}]
        if not movable or time.monotonic() >= deadline:
            return info, leads
        if time.monotonic() - said >= LINE_EVERY_S:
            said = time.monotonic()
            echo_err(f"broker {broker} still leads {count(len(movable), 'partition')}")
        await asyncio.sleep(POLL_S)


async def in_maintenance(connected: Cluster, info: ClusterInfo) -> set[int]:
    """Return the brokers in maintenance, from the first broker that reports it."""
    reports = await broker_reports(connected, info.alive)
    for each in reports.values():
        if each.report:
            return set(each.report["metadata"]["in_maintenance"])
    return set()


def _check(info: ClusterInfo, broker: int) -> None:
    if broker not in info.brokers:
        raise Problem(f"there is no broker {broker}", f"the brokers are {', '.join(map(str, info.brokers))}")


def _row(info: ClusterInfo, broker: int, aside: Iterable[int]) -> dict[str, Any]:
    partitions = info.partitions.values()
    alive = "in service" if info.brokers[broker].is_alive else "not alive"
    return {
        "broker": broker,
        "state": "in maintenance" if broker in set(aside) else alive,
        "leads": sum(each.leader == broker for each in partitions),
        "holds": sum(broker in each.replicas for each in partitions),
        "in_sync": sum(broker in each.isr for each in partitions),
    }
