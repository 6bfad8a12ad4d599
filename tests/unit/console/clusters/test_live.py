"""What the console asks of a cluster, where some partitions cannot answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.offsets import OffsetAndTime
from ottla.common.ids import TopicPartition
from ottla.console.clusters import live
from ottla.protocol.errors import (
    KafkaError,
    LeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)

WITHOUT_ANSWER: dict[str, type[KafkaError]] = {
    "offline": LeaderNotAvailable,
    "deleted": UnknownTopicOrPartition,
    "hidden": TopicAuthorizationFailed,
}


class Cluster:
    async def leader(self, partition: TopicPartition) -> int:
        if partition.topic in WITHOUT_ANSWER:
            raise WITHOUT_ANSWER[partition.topic]()
        return 0


async def test_one_partition_without_an_answer_leaves_the_ends_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def list_offsets(cluster: Cluster, wanted: dict[TopicPartition, int]) -> Any:
        return {at: OffsetAndTime(7, -1) for at in wanted if await cluster.leader(at) == 0}

    monkeypatch.setattr(live, "list_offsets", list_offsets)
    console: Any = live.LiveCluster.__new__(live.LiveCluster)
    console.admin = SimpleNamespace(cluster=Cluster())
    places = [TopicPartition(topic, 0) for topic in (*WITHOUT_ANSWER, "there")]
    assert await console.ends_of(places) == {TopicPartition("there", 0): 7}
