"""The sums over partitions that a broker reports."""

from __future__ import annotations

import pytest
from tests.unit.replication.replica_cluster import Cluster, run

from ottla.metrics.partition_source import PartitionSums


@pytest.mark.parametrize(
    ("isr", "elr", "under_min", "at_min"),
    [((1, 2), (), 0, 0), ((1,), (), 0, 1), ((1,), (2,), 1, 0)],
    ids=["all", "as many as the leader wants", "fewer than the controller wants"],
)
def test_partitions_that_refuse_records_are_counted(
    isr: tuple[int, ...], elr: tuple[int, ...], under_min: int, at_min: int
) -> None:
    async def scenario() -> None:
        async with Cluster(min_insync_replicas="1") as cluster:
            await cluster.create(1, 2)
            await cluster.alter(isr=isr, elr=elr)
            sums = PartitionSums()
            sums.count(cluster.partition(1), cluster.partition_image, size_bytes=0)
            assert (sums.led, sums.under_min, sums.at_min) == (1, under_min, at_min)

    run(scenario())
