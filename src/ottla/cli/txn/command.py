"""`ottla txn`: list, describe and abort transactions; find hanging ones."""

from __future__ import annotations

import re
import time

import click

from ottla.cli.support import session
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.not_authorized import visible
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.partition_choice import Choice, chosen_partitions, topic_option
from ottla.cli.support.problems import Problem
from ottla.cli.txn.abort import abort, described
from ottla.cli.txn.view import (
    described_as_json,
    listed_as_json,
    open_as_json,
    print_described,
    print_listed,
    print_open,
)
from ottla.client.admin.transactions import (
    PREPARED,
    ListedTransaction,
    OpenTransaction,
    TransactionDescription,
    Transactions,
    prefix_pattern,
)
from ottla.client.cluster import Cluster
from ottla.client.producer.options import ProducerOptions
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import TRANSACTION_STATE_TOPIC
from ottla.protocol.errors import InvalidRegularExpression

# `ottla txn spark`: show and end the transactions that Spark queries have left open.


@click.command("spark", short_help="Show, or end, open transactions of Spark queries.")
@click.option("--query", "query_id", metavar="ID", help="Only of this query.")
@click.option("--end", is_flag=True, help="End them: commit those that are decided, abort the others.")
@format_option
@bootstrap_option
def spark_transactions(query_id: str | None, end: bool, output_format: str, bootstrap: str) -> None:
    """Show the open transactions of Spark queries; end those of a query that will not run again.

    A query that runs, or is started again, ends them itself: use --end only if it will not.

    \b
    ottla txn spark
    ottla txn spark --query 5f0c2f2e-6c0b-4f5e-8a3e-0a7a3d9b2b11 --end
    """

    async def work(cluster: Cluster) -> list[dict[str, object]]:
        from ottla.spark.sink.recovery import Recovery

        options = ProducerOptions(bootstrap_servers=[str(each) for each in cluster.bootstrap])
        recovery = Recovery(cluster, options)
        found: list[dict[str, object]] = []
        for each in await recovery.find(query_id):
            if end:
                await recovery.end(each)
            outcome = "commit" if each.decided is not None else "abort"
            found.append(
                {
                    "transactional_id": each.transactional_id,
                    "query": each.key.query_id,
                    "sink": each.key.sink,
                    "decided_batch": each.batch_id,
                    "end": outcome,
                    "ended": end,
                }
            )
        return found

    found = session.run(bootstrap, work)
    if output_format == "json":
        print_json(found)
        return
    if not found:
        echo_err("no Spark query has an open transaction")
    for each in found:
        verb = "was" if end else "to be"
        outcome = "committed" if each["end"] == "commit" else "aborted"
        click.echo(f"{each['transactional_id']}  {verb} {outcome}")
    if found and not end:
        echo_err("the query ends them when it runs again; if it will not: ottla txn spark --end")


UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NAMED = 20
OLDER_THAN = "15m"
"""The maximum duration of a live producer's transaction: Kafka's default of transaction.max.timeout.ms."""
STATES = (
    "Empty",
    "Ongoing",
    PREPARED,
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)


class Time(click.ParamType):  # type: ignore[type-arg]
    """A time with a unit: `90s`, `15m`, `2h`."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return it in milliseconds."""
        match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", str(value))
        if match is None:
            self.fail(f"{value!r} is not a time: write 90s, 15m, 2h or 1d", param, ctx)
        return int(match[1]) * UNITS_MS[match[2]]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def txn() -> None:
    """List, describe and abort transactions; find hanging ones.

    \b
    ottla txn list
    """


txn.add_command(abort)
txn.add_command(spark_transactions)


@txn.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help=f"Only in this state; repeatable: {', '.join(STATES)}.",
)
@click.option("--longer-than", type=Time(), help="Only those that have been running longer.")
@click.option(
    "--match", "pattern", metavar="REGEX", help="Only ids that match this regular expression as a whole."
)
@click.option("--prefix", metavar="TEXT", help="Only ids with this prefix.")
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

    async def command(cluster: Cluster) -> list[ListedTransaction]:
        try:
            return await Transactions(cluster).list(states, longer_than_ms=longer_than, pattern=pattern)
        except InvalidRegularExpression:
            hint = "to match a prefix, use --prefix"
            raise Problem(f"--match: {pattern!r} is not a valid regular expression", hint) from None

    found = session.run(bootstrap, command)
    if output_format == "json":
        print_json([listed_as_json(each) for each in found])
    elif found:
        print_listed(found)
    else:
        echo_err(
            "no such transactions" if states or pattern or longer_than else f"no transactions{visible()}"
        )


@txn.command(short_help="Show a transactional id and its transaction.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@format_option
@bootstrap_option
def describe(ids: tuple[str, ...], output_format: str, bootstrap: str) -> None:
    """Show a transactional id: its producer, its transaction, and the partitions in it.

    \b
    ottla txn describe billing-3
    """

    async def command(cluster: Cluster) -> list[TransactionDescription]:
        transactions = Transactions(cluster)
        return [await described(transactions, each) for each in dict.fromkeys(ids)]

    found = session.run(bootstrap, command)
    if output_format == "json":
        print_json([described_as_json(each) for each in found])
        return
    for each in found:
        print_described(each, _now_ms())


@txn.command(short_help="Find transactions that no coordinator knows.")
@topic_option("Only this topic; repeatable.  [default: all topics]")
@click.option(
    "--older-than",
    type=Time(),
    default=OLDER_THAN,
    show_default=True,
    help="Only those whose last record is older: younger ones may be about to be added.",
)
@format_option
@bootstrap_option
def hanging(topics: Choice, older_than: int, output_format: str, bootstrap: str) -> None:
    """Find hanging transactions: open in a partition, and unknown to their coordinator.

    They block read_committed consumers. To end one:

    \b
    ottla txn abort --topic TOPIC:PARTITION --start-offset N

    \b
    ottla txn hanging --topic orders
    """

    async def command(cluster: Cluster) -> tuple[OpenTransaction, ...]:
        where = await chosen_partitions(cluster, topics) if topics else await _everywhere(cluster)
        where = await _led(cluster, where)
        return await Transactions(cluster).hanging(where, older_than_ms=older_than, now_ms=_now_ms())

    found = session.run(bootstrap, command)
    if output_format == "json":
        print_json([open_as_json(each) for each in found])
    elif found:
        print_open(found, _now_ms())
    else:
        echo_err("no transaction hangs")


async def _everywhere(cluster: Cluster) -> list[TopicPartition]:
    topics = await cluster.refresh(None)
    return [
        TopicPartition(name, index)
        for name in sorted(topics)
        if name != TRANSACTION_STATE_TOPIC  # which has no transactions
        for index in topics[name].partitions
    ]


async def _led(cluster: Cluster, partitions: list[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions with a leader to ask; print the others."""
    topics = await cluster.refresh(list({topic_partition.topic for topic_partition in partitions}))
    led = [
        topic_partition
        for topic_partition in partitions
        if topics[topic_partition.topic].partitions[topic_partition.partition].leader >= 0
    ]
    missing = [str(topic_partition) for topic_partition in partitions if topic_partition not in led]
    if missing:
        names = ", ".join(missing[:NAMED]) + (", ..." if len(missing) > NAMED else "")
        echo_err(f"{count(len(missing), 'partition')} without a leader cannot be checked: {names}")
    return led


def _now_ms() -> int:
    return int(time.time() * 1000)
