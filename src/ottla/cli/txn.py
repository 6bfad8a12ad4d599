"""`ottla txn`: list, describe and abort transactions; find those that hang."""

from __future__ import annotations

import difflib
import re
import sys
import time

import click

from ottla.cli import session
from ottla.cli.not_allowed import visible
from ottla.cli.options import bootstrap_option, format_option, is_terminal
from ottla.cli.output import print_json, talk
from ottla.cli.partition_choice import Choice, chosen_partitions, topic_option
from ottla.cli.problem_kinds import UNKNOWN_TRANSACTION
from ottla.cli.problems import Problem
from ottla.cli.txn_spark import spark_transactions
from ottla.cli.txn_view import (
    described_as_json,
    listed_as_json,
    open_as_json,
    print_described,
    print_listed,
    print_open,
    state_of,
)
from ottla.client.cluster import Cluster
from ottla.client.transactions import OpenTransaction, TransactionDescription, Transactions, prefix_pattern
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import is_internal
from ottla.protocol.errors import TransactionalIdNotFound

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
OLDER_THAN = "15m"
"""What no transaction of a living producer exceeds, with Kafka's transaction.max.timeout.ms."""


class Time(click.ParamType):  # type: ignore[type-arg]
    """A time with a unit: `90s`, `15m`, `2h`."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return it in milliseconds."""
        match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", str(value))
        if match is None:
            self.fail(f"{value!r} is not a time: write 90s, 15m, 2h or 1d", param, ctx)
        return int(match[1]) * UNITS_MS[match[2]]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def txn() -> None:
    """List, describe and abort transactions; find those that hang."""


txn.add_command(spark_transactions)


@txn.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in this state; repeatable.")
@click.option("--longer-than", type=Time(), help="Only those that have been running longer.")
@click.option("--match", "pattern", metavar="REGEX", help="Only ids that this matches as a whole.")
@click.option("--prefix", metavar="TEXT", help="Only ids that begin like this.")
@format_option
@bootstrap_option
def list_transactions(
    states: tuple[str, ...],
    longer_than: int | None,
    pattern: str | None,
    prefix: str | None,
    output_format: str,
    bootstrap: str,
) -> None:
    """List transactional ids, and the state of their last transaction.

    \b
    ottla txn list --state Ongoing --longer-than 10m
    ottla txn list --state Prepared --prefix spark-sink-
    """
    if pattern is not None and prefix is not None:
        raise click.UsageError("--match and --prefix exclude each other")
    if prefix is not None:
        pattern = prefix_pattern(prefix)
    found = session.run(
        bootstrap,
        lambda cluster: Transactions(cluster).list(states, longer_than_ms=longer_than, pattern=pattern),
    )
    if output_format == "json":
        print_json([listed_as_json(each) for each in found])
    elif found:
        print_listed(found)
    else:
        talk("no such transactions" if states or pattern or longer_than else f"no transactions{visible()}")


@txn.command(short_help="Show a transactional id and its transaction.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@format_option
@bootstrap_option
def describe(ids: tuple[str, ...], output_format: str, bootstrap: str) -> None:
    """Show a transactional id: its producer, its transaction, and the partitions in it."""

    async def command(cluster: Cluster) -> list[TransactionDescription]:
        transactions = Transactions(cluster)
        return [await _described(transactions, each) for each in dict.fromkeys(ids)]

    found = session.run(bootstrap, command)
    if output_format == "json":
        print_json([described_as_json(each) for each in found])
        return
    for each in found:
        print_described(each, _now_ms())


@txn.command(short_help="Find transactions that no coordinator knows.")
@topic_option("Look there only; repeatable. Else in all topics.")
@click.option(
    "--older-than",
    type=Time(),
    default=OLDER_THAN,
    show_default=True,
    help="Only those whose last record is older: a younger one may be about to be added.",
)
@format_option
@bootstrap_option
def hanging(topics: Choice, older_than: int, output_format: str, bootstrap: str) -> None:
    """Find transactions that are open in a partition and that no coordinator knows.

    They hold back all who read committed records. To end one:

    \b
    ottla txn abort --topic TOPIC:PARTITION --start-offset N
    """

    async def command(cluster: Cluster) -> tuple[OpenTransaction, ...]:
        where = await chosen_partitions(cluster, topics) if topics else await _everywhere(cluster)
        return await Transactions(cluster).hanging(where, older_than_ms=older_than, now_ms=_now_ms())

    found = session.run(bootstrap, command)
    if output_format == "json":
        print_json([open_as_json(each) for each in found])
    elif found:
        print_open(found, _now_ms())
    else:
        talk("no transaction hangs")


@txn.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@topic_option("For one that hangs: its partition, TOPIC:P.")
@click.option("--start-offset", type=click.IntRange(0), metavar="N", help="For one that hangs: its begin.")
@click.option("--dry-run", is_flag=True, help="Only show what would be aborted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def abort(
    ids: tuple[str, ...],
    topics: Choice,
    start_offset: int | None,
    dry_run: bool,
    yes: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Abort transactions, and fence their producers. On a terminal, asks first.

    By id, the coordinator aborts what is open, also what is prepared. One that hangs has no coordinator:
    name its partition and where it begins, as `ottla txn hanging` shows them.

    \b
    ottla txn abort billing-3
    ottla txn abort --topic orders:2 --start-offset 1042
    """
    if bool(ids) == bool(topics) or (start_offset is None) == bool(topics):
        raise click.UsageError(
            "name transactional ids, or one partition with --topic TOPIC:P --start-offset N"
        )

    async def command(cluster: Cluster) -> list[dict[str, object]]:
        transactions = Transactions(cluster)
        if start_offset is None:
            return await _abort_ids(transactions, ids, dry_run, yes)
        partition = await _one_partition(cluster, topics)
        return [await _abort_hanging(transactions, partition, start_offset, dry_run, yes)]

    done = session.run(bootstrap, command)
    if output_format == "json":
        print_json(done)


async def _abort_ids(
    transactions: Transactions, ids: tuple[str, ...], dry_run: bool, yes: bool
) -> list[dict[str, object]]:
    found = [await _described(transactions, each) for each in dict.fromkeys(ids)]
    _confirm(", ".join(each.transactional_id for each in found), dry_run or yes)
    for each in found:
        if not dry_run:
            await transactions.abort(each.transactional_id)
        talk(f"{each.transactional_id} ({state_of(each)}): {_done(dry_run)}")
    return [{**described_as_json(each), "aborted": not dry_run} for each in found]


async def _abort_hanging(
    transactions: Transactions, partition: TopicPartition, offset: int, dry_run: bool, yes: bool
) -> dict[str, object]:
    opened = await transactions.open_in([partition])
    hit = next((each for each in opened if each.start_offset == offset), None)
    if hit is None:
        others = ", ".join(str(each.start_offset) for each in opened)
        hint = f"those that are begin at {others}" if others else "none is open there at all"
        raise Problem(f"no transaction is open in {partition} from offset {offset} on", hint)
    _confirm(f"the transaction of producer {hit.producer_id} in {partition}", dry_run or yes)
    if not dry_run:
        await transactions.abort_in(hit)
    talk(f"{partition}, offset {offset}, producer {hit.producer_id}: {_done(dry_run)}")
    return {**open_as_json(hit), "aborted": not dry_run}


async def _described(transactions: Transactions, transactional_id: str) -> TransactionDescription:
    """Return a transactional id; if nobody knows it, raise Problem with the names that are near."""
    try:
        return await transactions.describe(transactional_id)
    except TransactionalIdNotFound:
        known = [each.transactional_id for each in await transactions.list()]
        near = difflib.get_close_matches(transactional_id, known, n=3)
        hints = [f"did you mean: {', '.join(near)}?"] if near else []
        hints.append("list them:  ottla txn list" if known else "there are no transactions yet")
        what = f"there is no transactional id {transactional_id!r}"
        raise Problem(what, *hints, kind=UNKNOWN_TRANSACTION) from None


async def _one_partition(cluster: Cluster, topics: Choice) -> TopicPartition:
    found = await chosen_partitions(cluster, topics)
    if len(found) != 1:
        raise Problem("a transaction hangs in one partition", "name it: --topic TOPIC:PARTITION")
    return found[0]


async def _everywhere(cluster: Cluster) -> list[TopicPartition]:
    topics = await cluster.refresh(None)
    return [
        TopicPartition(name, index)
        for name in sorted(topics)
        if not is_internal(name)
        for index in topics[name].partitions
    ]


def _confirm(what: str, is_sure: bool) -> None:
    if not is_sure and is_terminal(sys.stdin) and not click.confirm(f"Abort {what}?", err=True):
        talk("nothing aborted")
        raise click.exceptions.Exit(1)


def _done(dry_run: bool) -> str:
    return "would be aborted" if dry_run else "aborted"


def _now_ms() -> int:
    return int(time.time() * 1000)
