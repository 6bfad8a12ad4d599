"""`ottla group list`: every group with its members and its lag."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.cli.group.view import NOTHING, OffsetsView, duration
from ottla.cli.support.output import print_table
from ottla.client.admin.group_types import ListedGroup
from ottla.client.admin.groups import Groups
from ottla.client.admin.lag import measure
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.lag import Lag
from ottla.protocol.errors import KafkaError

GROUPS_AT_ONCE = 16
COLUMNS = ("group", "type", "state")
LAG_COLUMNS = ("members", "lag", "behind")


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
    groups, turns = Groups(cluster), asyncio.Semaphore(GROUPS_AT_ONCE)

    async def line(each: ListedGroup) -> GroupLine:
        async with turns:
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
    columns = COLUMNS + LAG_COLUMNS if with_lag else COLUMNS
    print_table(columns, [each.cells(with_lag) for each in lines], right=LAG_COLUMNS)
