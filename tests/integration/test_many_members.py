"""100 members on 300 partitions: nobody ever reads what somebody else reads, whatever happens to the members.

How soon such a group settles is measured by `python -m benchmarks --only groups`.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from benchmarks.groups import PROTOCOLS, SETTINGS, Crowd, create_topic
from tests.integration.clients import HasAddress

from ottla.common.ids import new_uuid
from ottla.testing.broker_process import BrokerProcess

BROKER_SETTINGS = SETTINGS
MEMBERS, PARTITIONS = 100, 300
GENEROUS_S = 60.0


@pytest.fixture(params=PROTOCOLS)
async def crowd(request: pytest.FixtureRequest, broker: HasAddress) -> Crowd:
    """A group without members yet."""
    topic = f"shared-{new_uuid().hex[:8]}"
    await create_topic(broker.address, topic, PARTITIONS)
    return Crowd(broker.address, request.param, topic, PARTITIONS)


async def test_every_partition_has_one_owner_while_members_come_go_and_vanish(crowd: Crowd) -> None:
    chance = random.Random(7)
    crowd.join(40)
    while len(crowd.members) < MEMBERS:
        # The next change does not wait for the group to settle.
        crowd.join(min(15, MEMBERS - len(crowd.members)))
        await asyncio.sleep(chance.uniform(0, 0.3))
        await crowd.leave(chance.randrange(5))
        await crowd.vanish(chance.randrange(3))
    await crowd.settled(GENEROUS_S)
    await crowd.leave(10)
    crowd.join(10)
    await crowd.settled(GENEROUS_S)
    assert [len(owned) for owned in crowd.ownership.now.values()] == [PARTITIONS // MEMBERS] * MEMBERS
    assert list(map(str, crowd.ownership.overlaps())) == []
    await crowd.leave(len(crowd.members))


async def test_every_partition_has_one_owner_through_a_crash_of_the_broker(
    crowd: Crowd, broker: HasAddress
) -> None:
    if not isinstance(broker, BrokerProcess):
        pytest.skip("OTTLA_TEST_BOOTSTRAP names the broker, so it is not ours to kill")
    crowd.join(MEMBERS)
    await crowd.settled(GENEROUS_S)
    await crowd.leave(10)
    crowd.join(10)  # so that it is killed in the middle of a rebalance
    broker.kill()
    await asyncio.to_thread(broker.start)
    await crowd.settled(GENEROUS_S)
    assert list(map(str, crowd.ownership.overlaps())) == []
    await crowd.leave(len(crowd.members))
