"""`ottla cluster`: brokers, leaders and replicas."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.cluster.health import health
from ottla.cli.cluster.maintenance import maintenance
from ottla.cli.cluster.move_replicas import move_replicas
from ottla.cli.cluster.reassign import decommission, reassign
from ottla.cli.cluster.storage import log_dirs, quorum
from ottla.cli.cluster.view import cluster_as_json, print_cluster, print_examination
from ottla.cli.support import session
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, confirm, format_option
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.partition_choice import partitions_named
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_admin import ClusterAdmin, ClusterInfo, Outcomes
from ottla.client.admin.cluster_health import examine_cluster
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import ElectionNotNeeded

SELDOM_USED = {
    "export": ("ottla.cli.cluster.declared", "Write topics, configs, ACLs and quotas as YAML."),
    "apply": ("ottla.cli.cluster.declared", "Change the cluster to what a file declares."),
    "backup": ("ottla.cli.cluster.backup", "Write the metadata of the cluster to a file."),
    "restore": ("ottla.cli.cluster.backup", "Create what a backup has and the cluster has not."),
    "rebuild": ("ottla.cli.cluster.rebuild", "Rebuild lost ZooKeeper data from the brokers' data."),
}
"""What `ottla cluster` imports only to run it."""


@click.group(cls=LazyGroup, lazy=SELDOM_USED, context_settings={"help_option_names": ["-h", "--help"]})
def cluster() -> None:
    """Show brokers and replicas; move partitions and leaders.

    \b
    ottla cluster health
    """


cluster.add_command(reassign)
cluster.add_command(decommission)
cluster.add_command(health)
cluster.add_command(log_dirs)
cluster.add_command(move_replicas)
cluster.add_command(quorum)
cluster.add_command(maintenance)


@cluster.command(short_help="Show brokers, their partitions, and problems.")
@format_option
@bootstrap_option
def describe(output_format: str, bootstrap: str) -> None:
    """Show the brokers, their partitions and leaders, and problems.

    \b
    ottla cluster describe
    """

    found = session.run(bootstrap, examine_cluster)
    if output_format == "json":
        print_json(cluster_as_json(found.info) | {"health": found.as_json()})
        return
    print_cluster(found.info)
    print_examination(found)


@cluster.command(short_help="Elect the preferred leaders.")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect any live replica for partitions without a leader; records may be LOST.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show which leaders would be elected.")
@format_option
@bootstrap_option
def elect(
    partitions: tuple[str, ...], unclean: bool, yes: bool, dry_run: bool, output_format: str, bootstrap: str
) -> None:
    """Elect the preferred leaders of all partitions, or of some.

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
            echo_err(
                "every partition is led by its preferred leader"
                if not unclean
                else "every partition has a leader"
            )
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
            _print_outcomes(outcomes, unclean)

    session.run(bootstrap, command)


def _is_due(info: ClusterInfo, at: TopicPartition, unclean: bool) -> bool:
    leader = info.topics[at.topic].partitions[at.partition].leader
    return leader < 0 if unclean else leader != info.target(at)[0]


def _confirm_loss(partitions: list[TopicPartition], yes: bool) -> None:
    if not yes:
        echo_err(
            f"{count(len(partitions), 'partition')} without a leader: a live replica will be elected, and "
            "records that only the missing brokers have are LOST permanently."
        )
    confirm("Elect?", yes)


def _elections_as_json(outcomes: Outcomes) -> list[dict[str, Any]]:
    return [
        {"topic": at.topic, "partition": at.partition, "error": None if error is None else str(error)}
        for at, error in outcomes.items()
    ]


def _print_outcomes(outcomes: Outcomes, unclean: bool) -> None:
    failed = {
        at: error
        for at, error in outcomes.items()
        if error is not None and not isinstance(error, ElectionNotNeeded)
    }
    echo_err(f"{count(len(outcomes) - len(failed), 'leader')} elected")
    if failed:
        which = "a leader" if unclean else "the preferred leader; the current leader stays"
        raise Problem(
            f"{count(len(failed), 'partition')} could not be given {which}",
            *(f"{at}: {error}" for at, error in list(failed.items())[:20]),
        )
