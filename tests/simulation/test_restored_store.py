"""A broker that was away does not follow a store that was restored meanwhile, however many changes it has."""

from __future__ import annotations

import logging

import pytest

from ottla.metadata import state
from ottla.testing.simulation.cluster import SimCluster

SOON_S = 20.0
OLD, FRESH = (1, 2, 3), 4


async def overtaken(cluster: SimCluster) -> None:
    """Restore the store under stopped brokers; one with empty directories continues with the older state."""
    nodes, server = cluster.nodes, cluster.server
    for each in OLD:
        nodes[each].start()
    assert await cluster.wait_until(lambda: all(nodes[each].broker for each in OLD), SOON_S)
    snapshot = server.snapshot()
    client = cluster.new_client()
    await client.process.spawn(client.create_topic("orders", 1, 3, {}))
    stopped = [cluster.loop.create_task(nodes[each].stop()) for each in OLD]
    for each in stopped:
        await each
    applied = server.version
    server.restore(snapshot)
    nodes[FRESH].start()
    assert await cluster.wait_until(lambda: nodes[FRESH].broker is not None, SOON_S)
    names = (f"other-{number}" for number in range(20))
    while server.version <= applied:
        await client.process.spawn(client.create_topic(next(names), 1, 1, {}))


def follow_after_restart(cluster: SimCluster) -> list[int]:
    """Start the brokers again; return those that follow the store."""

    async def scenario() -> list[int]:
        await overtaken(cluster)
        for each in OLD:
            cluster.nodes[each].start()
        await cluster.wait_until(lambda: False, 5.0)
        return [each for each in OLD if cluster.nodes[each].broker is not None]

    return cluster.run(scenario())


@pytest.fixture
def cluster() -> SimCluster:
    return SimCluster(1, FRESH, log_level=logging.ERROR)


def test_no_broker_follows_a_history_that_overtook_its_own(cluster: SimCluster) -> None:
    assert follow_after_restart(cluster) == []
    for each in OLD:
        (problem, *_) = cluster.nodes[each].start_problems
        assert "another history" in problem
        assert "ottla cluster rebuild" in problem


def test_by_their_versions_alone_it_would_not_be_noticed(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "is_other_history", lambda *_: False)
    assert follow_after_restart(cluster) == list(OLD)
