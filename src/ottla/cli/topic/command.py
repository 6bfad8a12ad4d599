"""`ottla topic`: create, list, describe, alter, trim and delete topics."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.support import session
from ottla.cli.support.completing import topic_keys, topic_names, unset_topic_keys
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.not_authorized import visible
from ottla.cli.support.options import (
    bootstrap_option,
    format_option,
    is_confirmed,
    is_terminal,
    key_values,
    named_argument,
)
from ottla.cli.support.output import count, echo_err, print_json, print_table, size_text
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem
from ottla.cli.topic.patterns import expand, matches
from ottla.client.cluster import Cluster, TopicInfo
from ottla.common.ids import uuid_text
from ottla.common.topic_names import is_internal
from ottla.protocol.errors import InvalidConfig, TopicAlreadyExists

if TYPE_CHECKING:
    from ottla.client.admin.topic_admin import TopicAdmin

MIN_INSYNC_REPLICAS = "min.insync.replicas"
LAZY = {
    "describe-storage": ("ottla.cli.topic.storage", "Show the size of each replica, and its disk."),
    "trim": ("ottla.cli.topic.trim", "Delete the oldest records of topics."),
}


@click.group(cls=LazyGroup, lazy=LAZY, context_settings={"help_option_names": ["-h", "--help"]})
def topic() -> None:
    """Create, list, describe, alter and delete topics.

    \b
    ottla topic create orders --partitions 3
    """


def _admin(cluster: Cluster) -> TopicAdmin:
    """Return the admin client of topics; it takes time to import, and `list` does without."""
    from ottla.client.admin.topic_admin import TopicAdmin

    return TopicAdmin(cluster)


@topic.command()
@named_argument("name", "--topic", "NAME")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Number of partitions.  [default: num.partitions of the broker]",
)
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1), metavar="N", help="Replicas per partition."
)
@click.option(
    "--set",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    shell_complete=topic_keys,
    help="A topic config; repeatable.",
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists; leave it unchanged.")
@click.option("--dry-run", is_flag=True, help="Only validate.")
@format_option
@bootstrap_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    dry_run: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Create the topic NAME.

    \b
    ottla topic create orders --partitions 6
    ottla topic create users --set cleanup.policy=compact
    """

    async def command(cluster: Cluster) -> None:
        try:
            created = await _admin(cluster).create_topic(
                name,
                partitions=partitions or -1,
                replication_factor=replication_factor or -1,
                configs=configs,
                validate_only=dry_run,
            )
        except TopicAlreadyExists:
            if not if_not_exists:
                raise
            echo_err(f"{name} already exists")
            return
        except InvalidConfig as error:
            raise bad_config(error, configs) from None
        if output_format == "json":
            print_json(
                {
                    "name": name,
                    "topic_id": uuid_text(created.topic_id) if created.topic_id else None,
                    "partitions": created.partition_count,
                    "replication_factor": created.replication_factor,
                    "dry_run": dry_run,
                }
            )
        verb = "can be created" if dry_run else "created"
        partition_count = count(created.partition_count, "partition")
        minimum = created.configs.get(MIN_INSYNC_REPLICAS)
        in_sync = f", {MIN_INSYNC_REPLICAS} {minimum}" if minimum and created.replication_factor > 1 else ""
        echo_err(
            f"{name}: {verb}, {partition_count}, replication factor {created.replication_factor}{in_sync}"
        )

    session.run(bootstrap, command, topic=name)


@topic.command("list")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("-s", "--sizes", is_flag=True, help="With the bytes of all replicas on disk.")
@click.option("-a", "--all", "include_internal", is_flag=True, help="Internal topics too.")
@format_option
@bootstrap_option
def list_topics(
    patterns: tuple[str, ...], sizes: bool, include_internal: bool, output_format: str, bootstrap: str
) -> None:
    """List the topics, or those that match a PATTERN.

    \b
    ottla topic list
    ottla topic list 'orders-*' --sizes
    """

    async def command(cluster: Cluster) -> tuple[dict[str, TopicInfo], Mapping[str, int]]:
        topics = await cluster.retrying(lambda: cluster.refresh(None))
        if not sizes:
            return topics, {}
        from ottla.cli.topic.storage import topic_sizes

        return topics, await topic_sizes(cluster)

    found, bytes_of = session.run(bootstrap, command)
    shown = [
        each
        for each in sorted(found.values(), key=lambda each: each.name)
        if (include_internal or not each.is_internal) and (not patterns or matches(each.name, patterns))
    ]
    if output_format == "json":
        print_json([_listed(each, bytes_of.get(each.name, 0) if sizes else None) for each in shown])
    elif shown:
        rows = [[each.name, str(len(each.partitions)), str(each.replication_factor)] for each in shown]
        columns = ["topic", "partitions", "replicas"]
        if sizes:
            columns.append("size")
            rows = [[*row, size_text(bytes_of.get(row[0], 0))] for row in rows]
        print_table(columns, rows, right=columns[1:])
    elif patterns:
        echo_err(f"no topic matches {' '.join(patterns)}")
    else:
        echo_err(f"no topics{visible()}; create one with: ottla topic create NAME")


def _listed(topic: TopicInfo, size_bytes: int | None) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id) if topic.topic_id else None,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "internal": topic.is_internal,
        **({} if size_bytes is None else {"size_bytes": size_bytes}),
    }


@topic.command("add-partitions", short_help="Add partitions to topics.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=topic_names)
@click.option("-n", "--number", type=click.IntRange(1), required=True, metavar="N", help="How many to add.")
@click.option("--dry-run", is_flag=True, help="Only validate.")
@bootstrap_option
def add_partitions(names: tuple[str, ...], number: int, dry_run: bool, bootstrap: str) -> None:
    """Add N partitions to each topic. Keys may map to other partitions from then on.

    \b
    ottla topic add-partitions orders --number 3
    """

    async def command(cluster: Cluster) -> None:
        admin = _admin(cluster)
        for name, info in (await admin.describe_topics(await expand(cluster, names))).items():
            total = len(info.partitions) + number
            await admin.create_partitions(name, total, validate_only=dry_run)
            verb = "can have" if dry_run else "now has"
            echo_err(f"{name}: {verb} {count(total, 'partition')}")

    session.run(bootstrap, command, topic=names[0])


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=topic_names)
@click.option("-c", "--configs", "all_configs", is_flag=True, help="Include configs with their defaults.")
@format_option
@bootstrap_option
def describe(names: tuple[str, ...], all_configs: bool, output_format: str, bootstrap: str) -> None:
    """Show topics: leaders, replicas, offsets, configs.

    \b
    ottla topic describe orders
    ottla topic describe 'orders-*' --configs
    """

    from ottla.cli.topic.view import TopicView

    async def command(cluster: Cluster) -> None:
        admin = _admin(cluster)
        topics = await admin.describe_topics(await expand(cluster, names))
        views = [
            TopicView(each, await admin.offset_ranges(each), await admin.topic_configs(each.name))
            for each in topics.values()
        ]
        if output_format == "json":
            print_json([view.as_json(all_configs=all_configs) for view in views])
            return
        for view in views:
            view.print(all_configs=all_configs)

    session.run(bootstrap, command)


@topic.command()
@named_argument("name", "--topic", "NAME", topic_names)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    metavar="N",
    help="Increase to this number (it cannot be reduced).",
)
@click.option(
    "--set",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    shell_complete=topic_keys,
    help="Set a config; repeatable.",
)
@click.option(
    "--unset",
    multiple=True,
    metavar="KEY",
    shell_complete=unset_topic_keys,
    help="Reset to the default; repeatable.",
)
@format_option
@bootstrap_option
def alter(
    name: str,
    partitions: int | None,
    configs: dict[str, str],
    unset: tuple[str, ...],
    output_format: str,
    bootstrap: str,
) -> None:
    """Change the topic NAME: more partitions, other configs.

    \b
    ottla topic alter orders --partitions 12
    ottla topic alter orders --set retention.ms=86400000 --unset segment.ms
    """
    if partitions is None and not configs and not unset:
        raise click.UsageError("nothing to change: give --partitions, --set or --unset")
    if both := sorted(set(configs) & set(unset)):
        raise click.UsageError(f"{both[0]} is both --set and --unset")

    async def command(cluster: Cluster) -> None:
        admin = _admin(cluster)
        await admin.describe_topics([name])
        try:
            for checking in (True, False):  # validate everything before changing anything
                if configs or unset:
                    await admin.alter_topic_configs(name, set_to=configs, unset=unset, validate_only=checking)
                if partitions is not None:
                    await admin.create_partitions(name, partitions, validate_only=checking)
        except InvalidConfig as error:
            raise bad_config(error, [*configs, *unset]) from None

    session.run(bootstrap, command, topic=name)
    if output_format == "json":
        print_json({"name": name, "partitions": partitions, "set": configs, "unset": list(unset)})
    for key, value in configs.items():
        echo_err(f"{name}: {key} is now {value}")
    for key in unset:
        echo_err(f"{name}: {key} is reset to its default")
    if partitions is not None:
        echo_err(f"{name}: {count(partitions, 'partition')} now")


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def delete(names: tuple[str, ...], dry_run: bool, yes: bool, output_format: str, bootstrap: str) -> None:
    """Delete topics and all their records. Asks for confirmation on a terminal.

    \b
    ottla topic delete orders
    ottla topic delete 'test-*' --dry-run
    """

    async def command(cluster: Cluster) -> list[str]:
        admin = _admin(cluster)
        wanted = await expand(cluster, names)
        if own := next(filter(is_internal, wanted), None):
            raise Problem(
                f"{own} is an internal topic, which stores the state of the cluster: it cannot be deleted"
            )
        topics = await admin.describe_topics(wanted)
        if dry_run:
            for each in topics.values():
                held = sum(end - start for start, end in (await admin.offset_ranges(each)).values())
                echo_err(f"{each.name}: would be deleted, {count(held, 'record')}")
            return wanted
        if not yes and is_terminal(sys.stdin) and not _confirmed(wanted):
            echo_err("nothing deleted")
            raise click.exceptions.Exit(1)
        for name in wanted:
            await admin.delete_topic(name)
            echo_err(f"{name}: deleted")
        return wanted

    deleted = session.run(bootstrap, command)
    if output_format == "json":
        print_json([{"name": name, "deleted": not dry_run} for name in deleted])


def bad_config(error: InvalidConfig, keys: Iterable[str]) -> Problem:
    """Return the message for a config that a broker rejects, with a similar key."""
    from ottla.common.config.topic import TopicConfig

    what = str(error) or "the broker rejected the configs"
    strange = [key for key in keys if key not in TopicConfig.KEYS]
    nearest = [near[0] for key in strange if (near := difflib.get_close_matches(key, TopicConfig.KEYS, n=1))]
    said = what.replace("?", " ").split()  # by the broker itself
    near = [f"did you mean: {name}?" for name in nearest if name not in said]
    return Problem(what, *near, "list them:  ottla topic describe TOPIC --configs", kind=BAD_CONFIG)


def _confirmed(names: list[str]) -> bool:
    return is_confirmed(f"Delete {', '.join(names)} and all their records?")
