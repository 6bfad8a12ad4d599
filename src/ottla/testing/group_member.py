"""Light members of consumer groups, many of which fit into one process: membership only, no records.

A member runs in a task and reports to an `Ownership` which partitions it takes and gives up. It can leave the
group, or vanish as if it were killed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress

from kio.schema.errors import ErrorCode

from ottla.client.admin.groups import Groups
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, error_for
from ottla.testing.ownership import Ownership, Place
from ottla.wire.address import Address
from ottla.wire.connection import Connection, ConnectionOptions

FENCED = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_member_epoch,
        ErrorCode.group_id_not_found,
    }
)
"""Errors that end a membership; the member gives up all partitions and rejoins."""

RETRIABLE = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
RETRY_S = 0.05


class GroupMember(ABC):
    """One member. `start` begins to join; `leave` and `vanish` end it."""

    def __init__(self, name: str, address: Address, group_id: str, topic: str, ownership: Ownership) -> None:
        self.name = name
        self.group_id = group_id
        self.topic = topic
        self.member_id = ""
        self._ownership = ownership
        self._cluster = Cluster([address], client_id=name)
        self._coordinator: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Join the group, and stay until `leave` or `vanish`."""
        self._ownership.join(self.name)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def leave(self) -> None:
        """Give up all partitions, and leave the group."""
        await self._stop()
        self._ownership.leave(self._now(), self.name)
        if self._coordinator is not None:
            # On a new connection: on the old one, a JoinGroup may be waiting.
            connection = await Connection.open(
                self._coordinator.address, ConnectionOptions(client_id=self.name)
            )
            await self._leave_group(connection)
            connection.close()
        await self._cluster.close()

    async def vanish(self) -> None:
        """End without leaving the group, like a killed process."""
        await self._stop()
        self._ownership.leave(self._now(), self.name)
        await self._cluster.close()

    def check(self) -> None:
        """Raise the error that the member failed with, if any."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    @property
    def owned(self) -> set[Place]:
        """The partitions that the member owns now."""
        return self._ownership.now[self.name]

    @abstractmethod
    async def _run_membership(self, connection: Connection) -> None:
        """Join and stay, until the coordinator ends the membership."""

    @abstractmethod
    async def _leave_group(self, connection: Connection) -> None:
        """Send LeaveGroup, or its equivalent."""

    def _own(self, places: Iterable[Place]) -> None:
        """Own exactly these partitions: give up the others first."""
        wanted = set(places)
        self._ownership.give_up(self._now(), self.name, self.owned - wanted)
        self._ownership.take(self._now(), self.name, wanted - self.owned)

    async def _run(self) -> None:
        while True:
            try:
                self._coordinator = await self._find_coordinator()
                while True:
                    await self._run_membership(self._coordinator)
                    self._own(())
            except ClientError:  # giving up too early is always safe
                self._own(())
                await asyncio.sleep(RETRY_S)

    async def _find_coordinator(self) -> Connection:
        async def attempt() -> Connection:
            await self._cluster.refresh([])
            return await self._cluster.broker(await Groups(self._cluster).coordinator(self.group_id))

        return await self._cluster.retrying(attempt, wait_for_brokers=True)

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class Fenced(Exception):
    """The coordinator has fenced this member, or does not know it."""


def check(code: int, also: Iterable[ErrorCode] = ()) -> ErrorCode:
    """Return the code if it is none, retriable, or one of `also`; raise otherwise."""
    known = ErrorCode(code)
    if known in FENCED:
        raise Fenced
    if known is ErrorCode.none or known in RETRIABLE or known in also:
        return known
    raise error_for(known)
