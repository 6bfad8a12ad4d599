"""Light members of consumer groups, many of which fit into one process: no records, only membership.

A member keeps its membership alive in a task of its own and reports to an `Ownership` what it takes and gives
up. It can leave as it should, or vanish without a word.
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
"""What says that a member is none any more; it gives up everything and joins anew."""

PASSING = frozenset(
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
        """Join, and stay until told otherwise."""
        self._ownership.join(self.name)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def leave(self) -> None:
        """Give up everything, tell the coordinator, and go."""
        await self._stop()
        self._ownership.leave(self._now(), self.name)
        if self._coordinator is not None:
            # Not on the old connection: there a JoinGroup may wait, and all that follows it.
            connection = await Connection.open(
                self._coordinator.address, ConnectionOptions(client_id=self.name)
            )
            await self._say_goodbye(connection)
            connection.close()
        await self._cluster.close()

    async def vanish(self) -> None:
        """Go without a word, as a process that is killed."""
        await self._stop()
        self._ownership.leave(self._now(), self.name)
        await self._cluster.close()

    def check(self) -> None:
        """Raise what the member failed with, if it did."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    @property
    def owned(self) -> set[Place]:
        """What the member owns now."""
        return self._ownership.now[self.name]

    @abstractmethod
    async def _be_a_member(self, connection: Connection) -> None:
        """Join and stay, until the coordinator says that this is no member any more."""

    @abstractmethod
    async def _say_goodbye(self, connection: Connection) -> None:
        """Tell the coordinator that the member leaves."""

    def _own(self, places: Iterable[Place]) -> None:
        """Own exactly these: give up the others first."""
        wanted = set(places)
        self._ownership.give_up(self._now(), self.name, self.owned - wanted)
        self._ownership.take(self._now(), self.name, wanted - self.owned)

    async def _run(self) -> None:
        while True:
            try:
                self._coordinator = await self._find_coordinator()
                while True:
                    await self._be_a_member(self._coordinator)
                    self._own(())
            except ClientError:  # to give up too early is always right
                self._own(())
                await asyncio.sleep(RETRY_S)

    async def _find_coordinator(self) -> Connection:
        async def attempt() -> Connection:
            await self._cluster.refresh([])
            return await self._cluster.broker(await Groups(self._cluster).coordinator(self.group_id))

        return await self._cluster.retrying(attempt, patient=True)

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class Fenced(Exception):
    """The coordinator does not know this member any more."""


def check(code: int, also: Iterable[ErrorCode] = ()) -> ErrorCode:
    """Return the code if it is none, passes by itself, or is one of `also`; raise otherwise."""
    known = ErrorCode(code)
    if known in FENCED:
        raise Fenced
    if known is ErrorCode.none or known in PASSING or known in also:
        return known
    raise error_for(known)
