"""100 members share 300 partitions: how soon a group settles after a change, and what that costs the broker.

The members are light ones of `ottla.testing`, all in this process. From what they report it is checked that
no partition ever had two owners.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import CreatableTopic

from benchmarks.measure import Meter, Served
from ottla.client.errors import raise_for
from ottla.protocol.types import TopicName, i16, i32
from ottla.testing.classic_member import ClassicMember
from ottla.testing.consumer_member import ConsumerMember
from ottla.testing.group_member import GroupMember
from ottla.testing.ownership import Overlap, Ownership
from ottla.wire.address import parse_address
from ottla.wire.connection import Connection, milliseconds

MEMBERS, PARTITIONS, CHANGES = 100, 300, 10
HEARTBEAT_MS = 500
SESSION_MS = 3_000
IDLE_S = 3.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
PROTOCOLS = ("classic", "consumer")


@dataclass(frozen=True)
class Change:
    """One change of the members: how long until all was shared again, and the CPU that it took."""

    what: str
    settled_s: float
    broker_cpu_s: float


@dataclass
class Crowd:
    """The members of one group, and their history."""

    address: str
    protocol: str
    topic: str
    partitions: int
    session_ms: int = SESSION_MS
    members: list[GroupMember] = field(default_factory=list)
    ownership: Ownership = field(default_factory=Ownership)
    made: int = 0

    def join(self, count: int) -> None:
        """Let new members join."""
        for _ in range(count):
            self.made += 1
            member = self._make(f"member-{self.made}")
            member.start()
            self.members.append(member)

    async def leave(self, count: int) -> None:
        """Let the oldest members leave."""
        gone, self.members = self.members[:count], self.members[count:]
        await asyncio.gather(*(member.leave() for member in gone))

    async def vanish(self, count: int) -> None:
        """Let the oldest members disappear without a word."""
        gone, self.members = self.members[:count], self.members[count:]
        await asyncio.gather(*(member.vanish() for member in gone))

    async def settled(self, within_s: float) -> None:
        """Wait until all partitions are shared evenly by all members."""
        async with asyncio.timeout(within_s):
            while not self.ownership.is_shared(self.partitions):
                for member in self.members:
                    member.check()
                await asyncio.sleep(0.005)

    def _make(self, name: str) -> GroupMember:
        place = (name, parse_address(self.address), f"{self.protocol}-group", self.topic, self.ownership)
        if self.protocol == "consumer":
            return ConsumerMember(*place)
        return ClassicMember(
            *place, partitions=self.partitions, session_ms=self.session_ms, heartbeat_ms=HEARTBEAT_MS
        )


async def create_topic(address: str, name: str, partitions: int) -> None:
    """Create a topic."""
    connection = await Connection.open(parse_address(address))
    topic = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(partitions),
        replication_factor=i16(1),
        assignments=(),
        configs=(),
    )
    request = CreateTopicsRequest(topics=(topic,), timeout=milliseconds(30_000), validate_only=False)
    response = await connection.request(request, CreateTopicsResponse, timeout_ms=60_000)
    raise_for(response.topics[0].error_code, response.topics[0].error_message)
    connection.close()


async def run(
    broker: Served, protocol: str, members: int = MEMBERS, partitions: int = PARTITIONS
) -> tuple[list[Change], list[Overlap]]:
    """Let a crowd join, shrink, grow and lose members; return what each change cost, and every overlap."""
    topic = f"shared-by-{protocol}"
    await create_topic(broker.address, topic, partitions)
    crowd = Crowd(broker.address, protocol, topic, partitions)
    some = max(1, members // CHANGES)

    async def join_all() -> None:
        crowd.join(members)

    async def join_some() -> None:
        crowd.join(some)

    changes = [
        await measured(broker, crowd, f"{members} join at once", join_all),
        await measured(broker, crowd, f"{some} leave", lambda: crowd.leave(some)),
        await measured(broker, crowd, f"{some} join", join_some),
        await measured(broker, crowd, f"{some} vanish, after their session", lambda: crowd.vanish(some)),
    ]
    changes[-1] = Change(
        changes[-1].what, changes[-1].settled_s - SESSION_MS / 1000, changes[-1].broker_cpu_s
    )
    meter = Meter(broker).start()
    await asyncio.sleep(IDLE_S)
    cost = meter.stop()
    changes.append(Change(f"nothing, for {IDLE_S:g} s", 0.0, cost.broker_cpu_s))
    await crowd.leave(len(crowd.members))
    return changes, list(crowd.ownership.overlaps())


async def measured(broker: Served, crowd: Crowd, what: str, change: Callable[[], Awaitable[None]]) -> Change:
    """Make a change, wait until all is shared again, and return how long that took."""
    meter = Meter(broker).start()
    await change()
    begun = time.perf_counter()
    await crowd.settled(within_s=60)
    settled_s = time.perf_counter() - begun
    return Change(what, settled_s, meter.stop().broker_cpu_s)


def rows(broker: Served) -> Sequence[tuple[str, Change, int]]:
    """Return (protocol, change, overlaps in its whole run) for the table."""
    found = []
    for protocol in PROTOCOLS:
        changes, overlaps = asyncio.run(run(broker, protocol))
        found += [(protocol, change, len(overlaps)) for change in changes]
    return found
