"""Faults in simulated clusters, and their end."""

from __future__ import annotations

from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.faults import Fault, FaultMaker


def test_when_all_is_healed_no_operator_asks_for_changes_any_more() -> None:
    """Or a move could begin, by a request long on its way, while replicas are compared (seed 7221)."""
    cluster = SimCluster(seed=1, nodes=2)

    async def story() -> None:
        for node in cluster.nodes.values():
            node.start()
        client = cluster.new_client()
        await client.process.spawn(client.create_topic("t", 1, 2, {}))
        faults = FaultMaker(cluster, client, "t")
        for node in cluster.nodes.values():
            node.kill()
        await faults.run([Fault(0, 0, "reassign", 1)])
        assert [each.done() for each in faults._operations] == [False]
        await faults.heal_everything()
        assert [each.done() for each in faults._operations] == [True]

    cluster.run(story())
