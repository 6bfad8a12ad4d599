"""`ottla topic describe-storage`: how much of each partition is on which disk; and the sizes of topics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import click

from ottla.cli.support import session
from ottla.cli.support.completing import topic_names
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import print_json, print_table, size_text
from ottla.cli.topic.patterns import expand
from ottla.client.admin.cluster_admin import describe_log_dirs
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class StoredReplica:
    """One replica on a disk."""

    partition: TopicPartition
    broker: int
    directory: str
    size_bytes: int
    lag: int


async def stored_replicas(cluster: Cluster) -> list[StoredReplica]:
    """Return every replica on every broker that answers."""
    return [
        StoredReplica(partition, node_id, directory.path, replica.size_bytes, replica.offset_lag)
        for node_id, directories in (await describe_log_dirs(cluster, None)).items()
        for directory in directories
        for partition, replica in directory.replicas.items()
    ]


async def topic_sizes(cluster: Cluster) -> Counter[str]:
    """Return the bytes of all replicas of each topic."""
    sizes: Counter[str] = Counter()
    for each in await stored_replicas(cluster):
        sizes[each.partition.topic] += each.size_bytes
    return sizes


@click.command("describe-storage", short_help="Show the size of each replica, and its disk.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=topic_names)
@format_option
@bootstrap_option
def describe_storage(names: tuple[str, ...], output_format: str, bootstrap: str) -> None:
    """Show how many bytes of each partition are on which disk.

    \b
    ottla topic describe-storage orders
    ottla topic describe-storage 'orders-*' --format json
    """

    async def command(cluster: Cluster) -> list[StoredReplica]:
        wanted = set(await TopicAdmin(cluster).describe_topics(await expand(cluster, names)))
        found = [each for each in await stored_replicas(cluster) if each.partition.topic in wanted]
        return sorted(found, key=lambda each: (each.partition, each.broker))

    found = session.run(bootstrap, command, topic=names[0])
    if output_format == "json":
        print_json(
            [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "broker": each.broker,
                    "directory": each.directory,
                    "size_bytes": each.size_bytes,
                    "offset_lag": each.lag,
                }
                for each in found
            ]
        )
        return
    rows = [
        [str(each.partition), str(each.broker), size_text(each.size_bytes), str(each.lag), each.directory]
        for each in found
    ]
    print_table(["partition", "broker", "size", "lag", "directory"], rows, right=["broker", "size", "lag"])
