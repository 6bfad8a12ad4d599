"""`ottla txn abort`: abort a transaction by its id, or a hanging one by its partition and start offset."""

from __future__ import annotations

import sys

import click

from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, format_option, is_confirmed, is_terminal
from ottla.cli.support.output import echo_err, print_json
from ottla.cli.support.partition_choice import Choice, chosen_partitions, topic_option
from ottla.cli.support.problem_kinds import UNKNOWN_TRANSACTION
from ottla.cli.support.problems import Problem
from ottla.cli.txn.view import described_as_json, open_as_json, state_of
from ottla.client.admin.transactions import OpenTransaction, TransactionDescription, Transactions
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.common.near_names import did_you_mean
from ottla.protocol.errors import TransactionalIdNotFound

ONGOING = "Ongoing"
DECIDED = {"PrepareCommit": "committed", "PrepareAbort": "aborted"}
NAMED = 20


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@topic_option("Of a hanging transaction: its partition, TOPIC:P.")
@click.option(
    "--start-offset", type=click.IntRange(0), metavar="N", help="Of a hanging transaction: its first offset."
)
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
    """Abort transactions, and fence their producers. Asks for confirmation on a terminal.

    By id, the coordinator aborts the open transaction, even if it is prepared. A hanging transaction is
    unknown to its coordinator: name its partition and start offset, as `ottla txn hanging` shows them.

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


async def described(transactions: Transactions, transactional_id: str) -> TransactionDescription:
    """Return a transactional id; if it is unknown, raise Problem with similar names."""
    try:
        return await transactions.describe(transactional_id)
    except TransactionalIdNotFound:
        known = [each.transactional_id for each in await transactions.list()]
        hints = did_you_mean(transactional_id, known)
        hints.append("list them:  ottla txn list" if known else "there are no transactions yet")
        what = f"there is no transactional id {transactional_id!r}"
        raise Problem(what, *hints, kind=UNKNOWN_TRANSACTION) from None


async def _abort_ids(
    transactions: Transactions, ids: tuple[str, ...], dry_run: bool, yes: bool
) -> list[dict[str, object]]:
    found = [await described(transactions, each) for each in dict.fromkeys(ids)]
    for each in found:
        _check_undecided(each)
    opened = [each for each in found if each.state == ONGOING]
    if opened:
        _confirm(", ".join(each.transactional_id for each in opened), dry_run or yes)
    for each in found:
        if each not in opened:  # its producer is not fenced: it may be about to begin the next one
            echo_err(f"{each.transactional_id} ({each.state}): no open transaction, nothing to abort")
            continue
        if not dry_run:
            await transactions.abort(each.transactional_id)
        echo_err(f"{each.transactional_id} ({state_of(each)}): {_done(dry_run)}")
    return [{**described_as_json(each), "aborted": each in opened and not dry_run} for each in found]


def _check_undecided(found: TransactionDescription) -> None:
    """Raise Problem if the transaction is already decided."""
    decision = DECIDED.get(found.state)
    if decision is None:
        return
    waiting = ", ".join(map(str, sorted(found.partitions)[:NAMED]))
    raise Problem(
        f"{found.transactional_id} is already being {decision} ({found.state}), which cannot be stopped",
        f"its markers are still to be written to {waiting or 'its log'}",
        "if that takes long, see missing brokers:  ottla cluster health",
    )


async def _abort_hanging(
    transactions: Transactions, partition: TopicPartition, offset: int, dry_run: bool, yes: bool
) -> dict[str, object]:
    opened = await transactions.open_in([partition])
    hit = next((each for each in opened if each.start_offset == offset), None)
    if hit is None:
        others = ", ".join(str(each.start_offset) for each in opened)
        hint = f"open transactions start at {others}" if others else "none is open there"
        raise Problem(f"no transaction is open in {partition} from offset {offset}", hint)
    await _check_hanging(transactions, hit)
    _confirm(f"the transaction of producer {hit.producer_id} in {partition}", dry_run or yes)
    if not dry_run:
        await transactions.abort_in(hit)
    echo_err(f"{partition}, offset {offset}, producer {hit.producer_id}: {_done(dry_run)}")
    return {**open_as_json(hit), "aborted": not dry_run}


async def _check_hanging(transactions: Transactions, opened: OpenTransaction) -> None:
    """Raise Problem if a coordinator knows it: aborted in one partition only, it could be committed in
    others.
    """
    for listed in await transactions.list(producer_ids=[opened.producer_id]):
        found = await described(transactions, listed.transactional_id)
        if found.knows(opened):
            whose = f"{found.transactional_id} ({state_of(found)})"
            raise Problem(
                f"that transaction is not hanging: it belongs to {whose}",
                f"abort it as a whole:  ottla txn abort {found.transactional_id}",
            )


async def _one_partition(cluster: Cluster, topics: Choice) -> TopicPartition:
    found = await chosen_partitions(cluster, topics)
    if len(found) != 1:
        raise Problem("a hanging transaction is in one partition", "name it: --topic TOPIC:PARTITION")
    return found[0]


def _confirm(what: str, is_sure: bool) -> None:
    if not is_sure and is_terminal(sys.stdin) and not is_confirmed(f"Abort {what}?"):
        echo_err("nothing aborted")
        raise click.exceptions.Exit(1)


def _done(dry_run: bool) -> str:
    return "would be aborted" if dry_run else "aborted"
