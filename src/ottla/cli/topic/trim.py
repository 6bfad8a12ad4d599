"""`ottla topic trim`: delete the oldest records of a topic (DeleteRecords)."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.completing import topic_names
from ottla.cli.support.offset_range import Start, parse_start, positions
from ottla.cli.support.options import bootstrap_option, confirm, format_option
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.partition_choice import chosen_partitions, parse_choice
from ottla.cli.support.problems import Problem
from ottla.client.admin.topic_admin import delete_records
from ottla.client.cluster import Cluster
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import is_internal


def _position(ctx: click.Context, param: click.Parameter, text: str) -> Start:
    try:
        return parse_start(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command(short_help="Delete the oldest records of topics.")
@click.argument("names", metavar="NAME[:P,...]...", nargs=-1, required=True, shell_complete=topic_names)
@click.option(
    "--before",
    required=True,
    metavar="POSITION",
    callback=_position,
    help="Delete what is before it: N, @TIME, -N (keep the last N), end, or P=N,P=N.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def trim(
    names: tuple[str, ...], before: Start, dry_run: bool, yes: bool, output_format: str, bootstrap: str
) -> None:
    """Delete the oldest records of topics, before their retention is over. They cannot be restored.

    Segments are removed from the disk when all their records are deleted.

    \b
    ottla topic trim orders --before @2026-11-15        older than that day
    ottla topic trim orders --before -1000    # keep 1,000 of each partition
    ottla topic trim orders:0 --before 42
    ottla topic trim orders --before end --dry-run
    """
    try:
        choice = dict(parse_choice(name) for name in names)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if own := next(filter(is_internal, choice), None):
        raise Problem(f"{own} is an internal topic: its records are the state of the cluster")

    async def command(cluster: Cluster) -> list[dict[str, Any]]:
        partitions = await chosen_partitions(cluster, choice)
        if before.each:
            partitions = [each for each in partitions if each.partition in before.each]
        elif before.at_offset and len(partitions) > 1:
            raise Problem("an offset belongs to one partition", "write:  --before 0=42,1=17")
        ranges = await offset_ranges(cluster, partitions)
        found = await positions(cluster, before, ranges)
        targets = {at: to for at, to in found.items() if to > ranges[at][0]}
        rows = [_row(at, ranges[at], to) for at, to in targets.items()]
        if output_format != "json" and rows:
            columns = list(rows[0])
            print_table(columns, [list(map(str, row.values())) for row in rows], right=columns[1:])
        total = sum(to - ranges[at][0] for at, to in targets.items())
        if not targets:
            echo_err("there are no such records")
        elif not dry_run:
            confirm(f"Delete up to {count(total, 'record')} permanently?", yes)
            await delete_records(cluster, targets)
            echo_err(f"up to {count(total, 'record')} deleted")
        return rows

    rows = session.run(bootstrap, command)
    if output_format == "json":
        print_json(rows)


def _row(at: TopicPartition, held: tuple[int, int], to: int) -> dict[str, Any]:
    start, end = held
    return {
        "topic": at.topic,
        "partition": at.partition,
        "start": start,
        "before": to,
        "end": end,
        "deleted": to - start,
    }
