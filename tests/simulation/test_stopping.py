"""Stopping a broker of a simulated cluster, whatever the others do."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable

from ottla.testing.simulation.cluster import SimCluster

SOON_S = 5.0
FEW_S = 4.0


def test_a_broker_stops_within_seconds_though_the_store_does_not_answer() -> None:
    cluster = SimCluster(1, 3, session_timeout_s=60.0)

    async def main() -> None:
        for node in cluster.nodes.values():
            node.start()
        assert await cluster.wait_until(lambda: all(each.broker for each in cluster.nodes.values()), SOON_S)
        client = cluster.new_client()
        await client.process.spawn(client.create_topic("t", 3, 3))
        for node in cluster.nodes.values():
            node.cut_store()
        for node in cluster.nodes.values():
            began_s = cluster.loop.now
            await node.stop()
            assert cluster.loop.now - began_s < FEW_S
            assert node.left_running == []

    cluster.run(main())


def test_leaders_move_before_a_broker_stops() -> None:
    cluster = SimCluster(1, 3, session_timeout_s=60.0)

    async def main() -> None:
        for node in cluster.nodes.values():
            node.start()
        client = cluster.new_client()
        await client.process.spawn(client.create_topic("t", 3, 3))
        await cluster.nodes[1].stop()
        assert {1}.isdisjoint(each.leader for each in cluster.image.topics["t"].partitions)

    cluster.run(main())


def test_what_a_killed_broker_had_not_begun_leaves_no_warning() -> None:
    cluster = SimCluster(1, 1, session_timeout_s=60.0)

    async def answer(request: Awaitable[None]) -> None:
        await request

    async def main() -> None:
        node = cluster.nodes[1]
        node.start()
        assert node.process is not None
        node.process.spawn(answer(asyncio.sleep(1)))
        node.kill()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cluster.run(main())
        gc.collect()
    # Sockets that other tests of this process left open are not meant.
    assert [str(each.message) for each in warned if each.category is not ResourceWarning] == []
