"""`ottla cluster move-replicas`: move replicas between the log directories of one broker."""

from __future__ import annotations

import asyncio

import click

from ottla.cli.cluster.maintenance import check_broker
from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option
from ottla.cli.support.output import count, echo_err
from ottla.cli.support.partition_choice import partitions_named
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_admin import ClusterAdmin, alter_replica_log_dirs, describe_log_dirs
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition

POLL_S = 0.2


@click.command("move-replicas", short_help="Move replicas to another disk of their broker.")
@click.argument("broker", type=click.IntRange(0))
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC[:PARTITION]...")
@click.option("--to", "path", required=True, metavar="DIR", help="The log directory to move them to.")
@click.option("--no-wait", is_flag=True, help="Do not wait until they are there.")
@bootstrap_option
def move_replicas(broker: int, partitions: tuple[str, ...], path: str, no_wait: bool, bootstrap: str) -> None:
    """Move replicas of a broker to another of its log directories, while they are served.

    The directories of a broker: `ottla cluster describe-log-dirs BROKER`.

    \b
    ottla cluster move-replicas 1 orders --to /disk2/ottla
    ottla cluster move-replicas 1 orders:0 orders:3 --to /disk2/ottla
    """

    async def command(connected: Cluster) -> int:
        info = await ClusterAdmin(connected).describe()
        check_broker(info, broker)
        chosen = [
            at
            for at in partitions_named(info, partitions)
            if broker in info.topics[at.topic].partitions[at.partition].replicas
        ]
        if not chosen:
            raise Problem(f"broker {broker} has no replica of {', '.join(partitions)}")
        outcomes = await alter_replica_log_dirs(connected, broker, dict.fromkeys(chosen, path))
        for at, error in outcomes.items():
            if error is not None:
                raise Problem(
                    f"{at} cannot be moved to {path}: {error.code.name.upper()}",
                    f"the directories of the broker: ottla cluster describe-log-dirs {broker}",
                )
        if not no_wait:
            view = f"to see how far it is:  ottla cluster describe-log-dirs {broker}"
            try:
                await _wait(connected, broker, set(chosen), path)
            except asyncio.CancelledError:
                echo_err(f"the broker continues; {view}")
                raise
            except ClientError as error:
                what = f"broker {broker} does not answer any more: {error}"
                raise Problem(what, f"start it, and it continues; {view}") from None
        return len(chosen)

    moved = session.run(bootstrap, command)
    what = "being moved" if no_wait else "moved"
    echo_err(f"{count(moved, 'replica')} {what} to {path}")


async def _wait(connected: Cluster, broker: int, chosen: set[TopicPartition], path: str) -> None:
    """Wait until the replicas are in the directory; Problem if a copy ended without it."""
    while True:
        found = {each.path: each.replicas for each in (await describe_log_dirs(connected, [broker]))[broker]}
        copies = found.get(path.rstrip("/") or "/", {})
        missing = {at for at in chosen if at not in copies or copies[at].is_future}
        if not missing:
            return
        if any(at not in copies for at in missing):
            first = min(at for at in missing if at not in copies)
            raise Problem(f"the move of {first} to {path} has ended without success", "see the broker's log")
        await asyncio.sleep(POLL_S)
