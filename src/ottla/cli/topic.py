"""`ottla topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.completing import topic_names
from ottla.cli.support.not_authorized import visible
from ottla.cli.support.options import bootstrap_option, format_option, is_terminal, key_values, named_argument
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem
from ottla.client.admin.config_admin import ConfigEntry, ConfigSource
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster, PartitionInfo, TopicInfo
from ottla.common.config.topic import TopicConfig
from ottla.common.ids import uuid_text
from ottla.common.topic_names import is_internal
from ottla.protocol.errors import InvalidConfig, TopicAlreadyExists

# The output of `ottla topic describe`.

MIN_INSYNC_REPLICAS = TopicConfig.min_insync_replicas.name
COLUMNS = ("partition", "leader", "replicas", "isr", "start", "end")


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic with its offsets and configs."""

    topic: TopicInfo
    offset_ranges: Mapping[int, tuple[int, int]]
    configs: Sequence[ConfigEntry]

    @property
    def overrides(self) -> list[ConfigEntry]:
        """The configs that are set for this topic."""
        return [each for each in self.configs if each.source is ConfigSource.TOPIC]

    def as_json(self, *, all_configs: bool) -> dict[str, Any]:
        """Return it as JSON."""
        shown = self.configs if all_configs else self.overrides
        return {
            "name": self.topic.name,
            "topic_id": uuid_text(self.topic.topic_id) if self.topic.topic_id else None,
            "internal": self.topic.is_internal,
            "replication_factor": self.topic.replication_factor,
            "configs": {each.name: each.value for each in shown},
            "partitions": [self._partition_as_json(each) for each in self.topic.partitions.values()],
        }

    def print(self, *, all_configs: bool) -> None:
        """Print it as text."""
        topic = self.topic
        facts = [count(len(topic.partitions), "partition"), f"replication factor {topic.replication_factor}"]
        if topic.is_internal:
            facts.append("internal")
        click.echo(f"{click.style(topic.name, bold=True)}: {', '.join(facts)}")
        if topic.topic_id:
            click.echo(f"id: {uuid_text(topic.topic_id)}")
        self._print_overrides()
        click.echo()
        rows = [self._row(each) for each in topic.partitions.values()]
        print_table(COLUMNS, rows, right=["partition", "leader", "start", "end"])
        if all_configs:
            click.echo()
            named = [[each.name, _shown(each), each.source.name.lower()] for each in self.configs]
            print_table(["config", "value", "from"], named)
        click.echo()

    def _print_overrides(self) -> None:
        if not self.overrides:
            click.echo("configs: all defaults")
            return
        click.echo("configs:")
        for each in self.overrides:
            click.echo(f"  {each.name}={_shown(each)}")

    def _row(self, partition: PartitionInfo) -> list[str]:
        start, end = self.offset_ranges.get(partition.index, ("-", "-"))
        isr = ",".join(map(str, partition.isr))
        if len(partition.isr) < len(partition.replicas):
            isr = click.style(isr or "none", fg="red")
        leader = str(partition.leader) if partition.leader >= 0 else click.style("none", fg="red")
        replicas = ",".join(map(str, partition.replicas))
        return [str(partition.index), leader, replicas, isr, str(start), str(end)]

    def _partition_as_json(self, partition: PartitionInfo) -> dict[str, Any]:
        start, end = self.offset_ranges.get(partition.index, (None, None))
        return {
            "partition": partition.index,
            "leader": partition.leader if partition.leader >= 0 else None,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "offline": list(partition.offline),
            "start_offset": start,
            "end_offset": end,
        }


def _shown(entry: ConfigEntry) -> str:
    return "(secret)" if entry.is_sensitive else str(entry.value if entry.value is not None else "")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


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
            created = await TopicAdmin(cluster).create_topic(
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
@click.option("-a", "--all", "include_internal", is_flag=True, help="Internal topics too.")
@format_option
@bootstrap_option
def list_topics(include_internal: bool, output_format: str, bootstrap: str) -> None:
    """List the topics."""
    found = session.run(bootstrap, lambda cluster: TopicAdmin(cluster).list_topics())
    shown = [each for each in found.values() if include_internal or not each.is_internal]
    if output_format == "json":
        print_json(
            [
                {
                    "name": each.name,
                    "topic_id": uuid_text(each.topic_id) if each.topic_id else None,
                    "partitions": len(each.partitions),
                    "replication_factor": each.replication_factor,
                    "internal": each.is_internal,
                }
                for each in shown
            ]
        )
        return
    if shown:
        rows = [[each.name, str(len(each.partitions)), str(each.replication_factor)] for each in shown]
        print_table(["topic", "partitions", "replicas"], rows, right=["partitions", "replicas"])
    else:
        echo_err(f"no topics{visible()}; create one with: ottla topic create NAME")


@topic.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=topic_names)
@click.option("-c", "--configs", "all_configs", is_flag=True, help="Include configs with their defaults.")
@format_option
@bootstrap_option
def describe(names: tuple[str, ...], all_configs: bool, output_format: str, bootstrap: str) -> None:
    """Show a topic: leaders, replicas, offsets, configs."""

    async def command(cluster: Cluster) -> None:
        admin = TopicAdmin(cluster)
        topics = await admin.describe_topics(list(dict.fromkeys(names)))
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
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Set a config; repeatable.",
)
@click.option("--unset", multiple=True, metavar="KEY", help="Reset to the default; repeatable.")
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
        admin = TopicAdmin(cluster)
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
    """Delete topics and all their records. Asks for confirmation on a terminal."""
    wanted = list(dict.fromkeys(names))
    if own := next(filter(is_internal, wanted), None):
        raise Problem(
            f"{own} is an internal topic, which stores the state of the cluster: it cannot be deleted"
        )

    async def command(cluster: Cluster) -> None:
        admin = TopicAdmin(cluster)
        topics = await admin.describe_topics(wanted)
        if dry_run:
            for each in topics.values():
                held = sum(end - start for start, end in (await admin.offset_ranges(each)).values())
                echo_err(f"{each.name}: would be deleted, {count(held, 'record')}")
            return
        if not yes and is_terminal(sys.stdin) and not _confirmed(wanted):
            echo_err("nothing deleted")
            raise click.exceptions.Exit(1)
        for name in wanted:
            await admin.delete_topic(name)
            echo_err(f"{name}: deleted")

    session.run(bootstrap, command)
    if output_format == "json":
        print_json([{"name": name, "deleted": not dry_run} for name in wanted])


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
    return click.confirm(f"Delete {', '.join(names)} and all their records?", err=True)
