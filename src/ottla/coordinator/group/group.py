"""What committed offsets need to know of a group, whatever protocol its members speak."""

from __future__ import annotations

from typing import Protocol

from ottla.coordinator.group.records import OffsetValue, Record
from ottla.coordinator.group.requests import CommitRequest, ListedGroup


class Group(Protocol):
    """A group. The checks raise the error that the client gets."""

    group_id: str

    @property
    def is_empty(self) -> bool:
        """Tell whether the group has no members."""
        ...

    def check_commit(self, request: CommitRequest) -> None:
        """Refuse offsets from anyone but a member of this generation, unless there are no members."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to tell offsets to a member that has been fenced."""
        ...

    def check_delete_offsets(self) -> None:
        """Refuse to delete offsets while it is not known which of them the members use."""
        ...

    def check_delete(self) -> None:
        """Refuse to delete a group with members."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members use the offsets of this topic."""
        ...

    def retention_start_ms(self, offset: OffsetValue) -> int | None:
        """Return from when on the retention of an offset counts; None while it is kept anyway."""
        ...

    def tombstones(self) -> tuple[Record, ...]:
        """Return the records that remove the group, but not its offsets."""
        ...

    def listed(self) -> ListedGroup:
        """Return the group's line in a list of groups."""
        ...
