"""Commits and topics for the tests of groups' offsets."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tests.unit.coordinator.group_table import Table

from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import CommitRequest, FetchRequest, OffsetToCommit
from ottla.metadata.image import ClusterImage, TopicImage

DAY_MS = 24 * 60 * 60 * 1000


def topics(*names: str) -> ClusterImage:
    return ClusterImage(
        topics={name: TopicImage(name, UUID(int=int.from_bytes(name.encode())), ()) for name in names}
    )


def commit_of(offset: int = 5, topic: str = "orders", partition: int = 0, **changes: object) -> CommitRequest:
    request = CommitRequest("g", "", None, -1, ((topic, (OffsetToCommit(partition, offset, 3, "note"),)),))
    return replace(request, **changes)  # type: ignore[arg-type]


def commit(
    table: Table, offset: int = 5, topic: str = "orders", partition: int = 0, **changes: object
) -> object:
    return table.ask(GroupMachine.commit, commit_of(offset, topic, partition, **changes))


def fetch(table: Table, topic: str = "orders", partition: int = 0) -> OffsetValue | None:
    request = FetchRequest("g", ((topic, (partition,)),))
    ((_, ((_, value),)),) = table.ask(GroupMachine.fetch, request)
    return value  # type: ignore[no-any-return]
