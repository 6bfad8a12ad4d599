"""`ottla cluster`: brokers, leaders and replicas."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.cluster.reassign import decommission, reassign
from ottla.cli.cluster.view import Health, cluster_as_json, print_cluster
from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, confirm, format_option
from ottla.cli.support.output import count, print_json, talk
from ottla.cli.support.partition_choice import partitions_named
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_admin import ClusterAdmin, ClusterInfo, Outcomes
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import ElectionNotNeeded


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cluster() -> None:
    """Look at brokers and replicas; move partitions and leaders."""


cluster.add_command(reassign)
cluster.add_command(decommission)


@cluster.command(short_help="Show brokers, what they lead, and what is wrong.")
@format_option
@bootstrap_option
def describe(output_format: str, bootstrap: str) -> None:
    """Show the brokers, what they lead and hold, and what is wrong."""

    async def command(connected: Cluster) -> tuple[ClusterInfo, Health]:
        return await _examined(connected)

    info, health = session.run(bootstrap, command)
    if output_format == "json":
        print_json(cluster_as_json(info) | {"health": health.as_json()})
        return
    print_cluster(info)
    health.print()


@cluster.command()
@format_option
@bootstrap_option
def health(output_format: str, bootstrap: str) -> None:
    """Tell what is wrong with the cluster, in detail.

    Ends with exit code 1 if a broker, a leader or a replica is missing, and 0 if all is well.
    """

    async def command(connected: Cluster) -> Health:
        return (await _examined(connected))[1]

    found = session.run(bootstrap, command)
    if output_format == "json":
        print_json(found.as_json())
    else:
        found.print()
    if not found.is_well:
        raise SystemExit(1)


async def _examined(connected: Cluster) -> tuple[ClusterInfo, Health]:
    info = await ClusterAdmin(connected).describe()
    minimums = await TopicAdmin(connected).topics_config("min.insync.replicas", list(info.topics))
    return info, Health.of(info, {topic: int(value) for topic, value in minimums.items()})


@cluster.command(short_help="Let the preferred leaders lead.")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option("--unclean", is_flag=True, help="Elect anyone where nobody leads; records may be LOST.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would be elected.")
@format_option
@bootstrap_option
def elect(
    partitions: tuple[str, ...], unclean: bool, yes: bool, dry_run: bool, output_format: str, bootstrap: str
) -> None:
    """Let the preferred leaders lead, everywhere or for some partitions.

    \b
    ottla cluster elect
    ottla cluster elect orders payments:3
    ottla cluster elect --unclean orders:0
    """

    async def command(connected: Cluster) -> None:
        admin = ClusterAdmin(connected)
        info = await admin.describe()
        chosen = partitions_named(info, partitions) if partitions else list(info.partitions)
        due = [at for at in chosen if _is_due(info, at, unclean)]
        outcomes: Outcomes = dict.fromkeys(due)
        if not due:
            talk("nobody leads who should not" if not unclean else "every partition has a leader")
        elif not dry_run:
            if unclean:
                _confirm_loss(due, yes)
            outcomes = await admin.elect_leaders(due, unclean=unclean)
        if output_format == "json":
            print_json(_elections_as_json(outcomes))
        elif dry_run:
            for at in due:
                click.echo(str(at))
        if due and not dry_run:
            _tell(outcomes, unclean)

    session.run(bootstrap, command)


def _is_due(info: ClusterInfo, at: TopicPartition, unclean: bool) -> bool:
    leader = info.topics[at.topic].partitions[at.partition].leader
    return leader < 0 if unclean else leader != info.target(at)[0]


def _confirm_loss(partitions: list[TopicPartition], yes: bool) -> None:
    if not yes:
        talk(
            f"{count(len(partitions), 'partition')} without a leader: whoever is alive will lead, and "
            "records that only the missing brokers have are LOST for good."
        )
    confirm("Elect?", yes)


def _elections_as_json(outcomes: Outcomes) -> list[dict[str, Any]]:
    return [
        {"topic": at.topic, "partition": at.partition, "error": None if error is None else str(error)}
        for at, error in outcomes.items()
    ]


def _tell(outcomes: Outcomes, unclean: bool) -> None:
    failed = {
        at: error
        for at, error in outcomes.items()
        if error is not None and not isinstance(error, ElectionNotNeeded)
    }
    talk(f"{count(len(outcomes) - len(failed), 'leader')} elected")
    if failed:
        which = "a leader" if unclean else "the preferred leader; who leads now goes on"
        raise Problem(
            f"{count(len(failed), 'partition')} could not be given {which}",
            *(f"{at}: {error}" for at, error in list(failed.items())[:20]),
        )
