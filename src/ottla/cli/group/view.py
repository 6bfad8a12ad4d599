"""Groups as `ottla group list`, `describe` and `offsets` show them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ottla.cli.support.output import count, print_table
from ottla.client.admin.group_types import CommittedOffset, GroupDescription, GroupMember, ListedGroup
from ottla.client.admin.groups import Groups
from ottla.client.admin.lag import Measured, measure
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.common.lag import Lag
from ottla.protocol.errors import KafkaError

PARTITION_COLUMNS = ("topic", "partition", "committed", "end", "lag", "behind")
MEMBER_COLUMNS = ("member", "client", "host", "instance", "partitions")
OFFSET_COLUMNS = ("topic", "partition", "committed", "start", "end", "lag", "behind", "metadata")
NUMBERS = ("partition", "committed", "start", "end", "lag", "behind", "partitions")
NOTHING = "-"
GROUPS_AT_ONCE = 16
LIST_COLUMNS = ("group", "type", "state")
LAG_COLUMNS = ("members", "lag", "behind")


@dataclass(frozen=True, slots=True)
class OffsetsView:
    """The committed offsets and the lag of a group, by partition."""

    committed: Mapping[TopicPartition, CommittedOffset]
    measured: Mapping[TopicPartition, Measured]

    @property
    def total(self) -> Lag | None:
        """The total lag in records, and the largest lag in seconds."""
        lags = [each.lag for each in self.measured.values() if each.lag is not None]
        if not lags:
            return None
        seconds = [each.seconds for each in lags if each.seconds is not None]
        return Lag(sum(each.records for each in lags), max(seconds) if seconds else None)

    def row(self, partition: TopicPartition) -> dict[str, Any]:
        """Return a partition as JSON."""
        kept, measured = self.committed.get(partition), self.measured.get(partition)
        lag = measured.lag if measured else None
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed_offset": kept.offset if kept else None,
            "leader_epoch": kept.leader_epoch if kept and kept.leader_epoch >= 0 else None,
            "metadata": kept.metadata if kept else None,
            "start_offset": measured.start_offset if measured else None,
            "end_offset": measured.end_offset if measured else None,
            "lag": lag.records if lag else None,
            "lag_seconds": lag.seconds if lag else None,
        }

    def cells(self, partition: TopicPartition) -> dict[str, str]:
        """Return a partition as a table row."""
        row = self.row(partition)
        return {
            "topic": partition.topic,
            "partition": str(partition.partition),
            "committed": _number(row["committed_offset"]),
            "start": _number(row["start_offset"]),
            "end": _number(row["end_offset"]),
            "lag": _number(row["lag"]),
            "behind": duration(row["lag_seconds"]),
            "metadata": row["metadata"] or "",
        }

    def as_json(self) -> list[dict[str, Any]]:
        """Return all partitions as JSON."""
        return [self.row(each) for each in self.committed]

    def print(self) -> None:
        """Print all partitions as a table."""
        cells = [self.cells(each) for each in self.committed]
        rows = [[each[column] for column in OFFSET_COLUMNS] for each in cells]
        print_table(OFFSET_COLUMNS, rows, right=NUMBERS)


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group with its offsets."""

    group: GroupDescription
    offsets: OffsetsView

    @property
    def owners(self) -> dict[TopicPartition, GroupMember]:
        """The partitions of each member."""
        return {each: member for member in self.group.members for each in member.partitions or ()}

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions with committed offsets, and the assigned ones."""
        return sorted({*self.offsets.committed, *self.owners})

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        group, owners, total = self.group, self.owners, self.offsets.total
        return {
            "group": group.group_id,
            "type": group.type,
            "protocol_type": group.protocol_type,
            "state": group.state,
            "assignor": group.assignor or None,
            "coordinator": group.coordinator,
            "lag": total.records if total else None,
            "lag_seconds": total.seconds if total else None,
            "members": [
                {
                    "member_id": each.member_id,
                    "instance_id": each.instance_id,
                    "client_id": each.client_id,
                    "host": each.host,
                    "partitions": None
                    if each.partitions is None
                    else [{"topic": one.topic, "partition": one.partition} for one in each.partitions],
                }
                for each in group.members
            ],
            "partitions": [
                {
                    **self.offsets.row(each),
                    "member_id": owners[each].member_id if each in owners else None,
                }
                for each in self.partitions
            ],
        }

    def print(self) -> None:
        """Print it as text."""
        group, total = self.group, self.offsets.total
        facts = [group.state.lower(), f"{group.type} protocol", count(len(group.members), "member")]
        if group.assignor:
            facts.append(f"assignor {group.assignor}")
        facts.append(f"coordinator {group.coordinator}")
        click.echo(f"{click.style(group.group_id, bold=True)}: {', '.join(facts)}")
        if total is not None:
            behind = f"{count(total.records, 'record')}, {duration(total.seconds)} behind"
            click.echo(f"lag: {behind if total.records else 'none'}")
        if self.partitions:
            click.echo()
            self._print_partitions()
        if group.members:
            click.echo()
            print_table(MEMBER_COLUMNS, [_member_row(each) for each in group.members], right=NUMBERS)
        click.echo()

    def _print_partitions(self) -> None:
        owners, rows = self.owners, []
        for partition in self.partitions:
            cells = self.offsets.cells(partition)
            owner = owners.get(partition)
            who = NOTHING if owner is None else owner.instance_id or owner.client_id or owner.member_id
            rows.append([*(cells[column] for column in PARTITION_COLUMNS), who])
        print_table([*PARTITION_COLUMNS, "read by"], rows, right=NUMBERS)


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group in the list; what could not be found out is None."""

    group: ListedGroup
    members: int | None = None
    lag: Lag | None = None

    def as_json(self, with_lag: bool) -> dict[str, Any]:
        """Return it as JSON."""
        found: dict[str, Any] = {
            "group": self.group.group_id,
            "type": self.group.type or None,
            "protocol_type": self.group.protocol_type,
            "state": self.group.state or None,
        }
        if with_lag:
            found["members"] = self.members
            found["lag"] = self.lag.records if self.lag else None
            found["lag_seconds"] = self.lag.seconds if self.lag else None
        return found

    def cells(self, with_lag: bool) -> list[str]:
        """Return it as a table row."""
        cells = [self.group.group_id, self.group.type or NOTHING, self.group.state or NOTHING]
        if with_lag:
            cells.append(NOTHING if self.members is None else str(self.members))
            cells.append(NOTHING if self.lag is None else f"{self.lag.records:,}")
            cells.append(NOTHING if self.lag is None else duration(self.lag.seconds))
        return cells


async def lines_of(cluster: Cluster, listed: Sequence[ListedGroup], now_ms: int) -> list[GroupLine]:
    """Describe and measure some groups, several at a time."""
    groups, limit = Groups(cluster), asyncio.Semaphore(GROUPS_AT_ONCE)

    async def line(each: ListedGroup) -> GroupLine:
        async with limit:
            try:
                members = len((await groups.describe(each.group_id)).members)
                committed = await groups.committed(each.group_id)
                offsets = {partition: kept.offset for partition, kept in committed.items()}
                view = OffsetsView(committed, await measure(cluster, offsets, now_ms))
            except (KafkaError, ClientError):  # deleted a moment ago, or not for us to see
                return GroupLine(each)
            return GroupLine(each, members, view.total)

    return list(await asyncio.gather(*map(line, listed)))


def print_lines(lines: Sequence[GroupLine], with_lag: bool) -> None:
    """Print the list."""
    columns = LIST_COLUMNS + LAG_COLUMNS if with_lag else LIST_COLUMNS
    print_table(columns, [each.cells(with_lag) for each in lines], right=LAG_COLUMNS)


def duration(seconds: float | None) -> str:
    """Return `0 s`, `3.2 s`, `2 min 5 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = int(seconds)
    for unit, smaller, size, part in (("min", "s", 60, 1), ("h", "min", 3_600, 60)):
        if whole < size * (60 if unit == "min" else 24):
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def _member_row(member: GroupMember) -> list[str]:
    read = NOTHING if member.partitions is None else str(len(member.partitions))
    return [member.member_id, member.client_id, member.host, member.instance_id or NOTHING, read]


def _number(value: int | None) -> str:
    return NOTHING if value is None else str(value)
