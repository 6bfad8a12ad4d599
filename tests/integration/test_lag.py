"""Lag in records and in seconds: computed by the broker for metrics, and by tools from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.client.admin.groups import Groups
from ottla.client.admin.lag import measure
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.common.clock import SystemClock
from ottla.common.ids import TopicPartition
from ottla.common.lag import Lag
from ottla.coordinator.lag import PartitionLag
from ottla.protocol.errors import NotCoordinator

ZSTD = 4


class FrozenClock(SystemClock):
    """The system's clock, but the time of day stands still, so that ages can be compared."""

    def __init__(self) -> None:
        self.now_ms = super().wall_ms()

    def wall_ms(self) -> int:
        return self.now_ms


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker in this process, to look into."""
    raw = {"node.id": "1", "log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"}
    async with Broker(raw, FrozenClock()) as started:
        yield started


@pytest.fixture
async def cluster(broker: Broker) -> AsyncIterator[Cluster]:
    assert broker.addresses is not None
    async with Cluster([address for _, address in broker.addresses.listeners]) as connected:
        yield connected


async def send(cluster: Cluster, topic: str, ages_s: Sequence[int], now_ms: int, codec: int = 0) -> None:
    """Append records of these ages to partition 0, all in one batch."""
    options = ProducerOptions(compression_type="zstd" if codec else None, linger_ms=1_000)
    async with AsyncProducer.on(cluster, options) as producer:
        for age_s in ages_s:
            await producer.send(topic, b"x" * 100, timestamp_ms=now_ms - age_s * 1000, partition=0)


async def lags(broker: Broker, cluster: Cluster, committed: dict[TopicPartition, int]) -> list[Lag | None]:
    """Commit offsets and return the lags: those of the broker, which must be those seen from outside."""
    groups = Groups(cluster)
    await groups.commit("billing", committed)
    inside = await broker.groups.lag("billing")
    offsets = {each: kept.offset for each, kept in (await groups.committed("billing")).items()}
    outside = await measure(cluster, offsets, broker.clock.wall_ms())
    assert {TopicPartition(each.topic, each.partition): (each.end_offset, each.lag) for each in inside} == {
        each: (seen.end_offset, seen.lag) for each, seen in outside.items()
    }
    return [each.lag for each in inside]


@pytest.mark.parametrize("codec", [0, ZSTD], ids=["plain", "zstd"])
async def test_lag_is_exact_at_every_offset(codec: int, broker: Broker, cluster: Cluster) -> None:
    await TopicAdmin(cluster).create_topic("orders", partitions=1)
    now_ms = broker.clock.wall_ms()
    await send(cluster, "orders", [90, 80, 70], now_ms, codec)
    await send(cluster, "orders", [30, 20, 10], now_ms, codec)
    place = TopicPartition("orders", 0)
    for offset, expected in enumerate([90, 80, 70, 30, 20, 10, 0]):
        assert await lags(broker, cluster, {place: offset}) == [Lag(6 - offset, expected)]
    await send(cluster, "orders", [5], now_ms)
    assert await lags(broker, cluster, {place: 6}) == [Lag(1, 5)]


async def test_lag_counts_from_what_is_left_where_records_were_deleted(
    broker: Broker, cluster: Cluster
) -> None:
    await TopicAdmin(cluster).create_topic("orders", partitions=2)
    now_ms = broker.clock.wall_ms()
    await send(cluster, "orders", [90, 80, 70], now_ms)
    broker.partitions.get("orders", 0).delete_records(2)
    behind = {TopicPartition("orders", 0): 1, TopicPartition("orders", 1): 0}
    assert await lags(broker, cluster, behind) == [Lag(2, 70), Lag(0, 0.0)]


async def test_a_partition_that_is_led_elsewhere_is_read_from_the_replica_here(
    broker: Broker, cluster: Cluster
) -> None:
    await TopicAdmin(cluster).create_topic("orders", partitions=1)
    await Groups(cluster).commit("billing", {TopicPartition("orders", 0): 0})
    del broker.partitions._led_by_name["orders"][0]  # as if another broker led it
    assert await broker.groups.lag("billing") == [PartitionLag("orders", 0, 0, 0, Lag(0, 0.0))]


async def test_partitions_that_are_not_here_have_no_lag(broker: Broker, cluster: Cluster) -> None:
    await TopicAdmin(cluster).create_topic("orders", partitions=1)
    await Groups(cluster).commit("billing", {TopicPartition("orders", 0): 0})
    del broker.partitions._led_by_name["orders"][0]  # as if it were only on another broker
    del broker.partitions._hosted["orders"][0]
    assert await broker.groups.lag("billing") == [PartitionLag("orders", 0, 0)]


async def test_a_group_that_does_not_exist_is_not_behind(broker: Broker, cluster: Cluster) -> None:
    with pytest.raises(NotCoordinator):
        await broker.groups.lag("nobody")  # before the first group there is no coordinator at all
    await Groups(cluster).coordinator("nobody")
    assert await broker.groups.lag("nobody") == []
