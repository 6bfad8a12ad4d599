"""Idle clients take every connection of a broker: replication and the controller's requests continue."""

from __future__ import annotations

import errno

import pytest
from tests.simulation.test_full_disks import SOON_S, Scene

from ottla.testing.simulation.faults import IdleConnections


def reset_links_between_brokers(scene: Scene, node_id: int) -> None:
    """End the connections between a broker and the others; those of clients stay."""
    brokers = {node.host for node in scene.cluster.nodes.values()}
    host = scene.cluster.nodes[node_id].host
    for each in list(scene.cluster.network.connections):
        if host in (each.here, each.there) and {each.here, each.there} <= brokers:
            each.reset(errno.ECONNRESET)


@pytest.mark.parametrize("who", ["leader", "controller"])
def test_a_full_table_of_connections_keeps_no_broker_out(who: str) -> None:
    scene = Scene(lag_ms=1_000)
    cluster = scene.cluster

    async def main() -> None:
        await scene.begin()
        assert cluster.server.controller is not None
        node_id = scene.leader if who == "leader" else cluster.server.controller.node_id
        node = cluster.nodes[node_id]
        crowd = IdleConnections(cluster)
        crowd.fill(node)
        assert node.broker is not None
        stats = node.broker.server.stats
        assert await cluster.wait_until(lambda: stats.rejected > 0, SOON_S)
        reset_links_between_brokers(scene, node_id)
        for _ in range(5):
            assert await scene.acks_arrive(1.0)
            assert scene.isr == {1, 2, 3}
        # The controller has to be reached for this one, by the other brokers.
        follower = next(each for each in cluster.nodes if each not in (node_id, scene.leader))
        cluster.nodes[follower].kill()
        assert await cluster.wait_until(lambda: scene.isr == {1, 2, 3} - {follower}, SOON_S)
        cluster.nodes[follower].start()
        assert await cluster.wait_until(lambda: scene.isr == {1, 2, 3}, SOON_S)
        crowd.leave(node)
        reader = cluster.new_client()
        await reader.process.spawn(reader.create_topic("after", 1, 3))

    cluster.run(main())
