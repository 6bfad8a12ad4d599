"""What `ottla topic describe` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ottla.cli.support.output import count, print_table
from ottla.client.admin.config_admin import ConfigEntry, ConfigSource
from ottla.client.cluster import PartitionInfo, TopicInfo
from ottla.common.ids import uuid_text

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
