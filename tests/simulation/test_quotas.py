"""Quotas in virtual time: the rate of a greedy client over 30 seconds, and what others notice of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from kio.schema.alter_client_quotas.v1 import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.request import EntityData, EntryData, OpData
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import FetchRequest
from kio.schema.fetch.v12.request import FetchPartition, FetchTopic
from kio.schema.produce.v9 import ProduceRequest
from kio.schema.produce.v9.request import PartitionProduceData, TopicProduceData

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.types import TopicName, f64, i8, i16, i32, i64
from ottla.testing.simulation.client import PORT, TIMEOUT_MS, SimClient, host_of
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.loop import SimClock
from ottla.wire.connection import milliseconds
from ottla.wire.peers import PeerAddress, Peers

PLACE = TopicPartition("t", 0)
QUOTA = 1_000_000
SECONDS = 30.0
NUMBER = 77  # client ids are broker-NUMBER: no such broker is registered


def batch_of(size: int) -> bytes:
    return bytes(encode_batch([Record(0, 0, None, bytes(size))]))


class Scene:
    """Brokers, a client without a quota, and greedy ones whose client id may have one."""

    def __init__(self, nodes: int) -> None:
        self.cluster = SimCluster(1, nodes)
        self.leader = -1

    async def begin(self, **quotas: float) -> None:
        for node in self.cluster.nodes.values():
            node.start()
        client = self.cluster.new_client()
        await client.process.spawn(client.create_topic("t", 1, len(self.cluster.nodes)))
        self.leader = (await client.process.spawn(client.leader(PLACE))).node_id
        entity = EntityData(entity_type="client-id", entity_name=f"broker-{NUMBER}")
        ops = tuple(OpData(key=key, value=f64(value), remove=False) for key, value in quotas.items())
        request = AlterClientQuotasRequest(
            entries=(EntryData(entity=(entity,), ops=ops),), validate_only=False
        )
        # Any broker: it forwards the request to the controller.
        response = await client.process.spawn(
            client.call(client.any_node(), ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
        )
        assert [each.error_code for each in response.entries] == [ErrorCode.none]
        brokers = [node.broker for node in self.cluster.nodes.values() if node.broker is not None]
        assert await self.cluster.wait_until(
            lambda: all(broker.services.quotas is not None for broker in brokers), 5.0
        )

    def greedy_client(self) -> SimClient:
        client = self.cluster.new_client()
        client.peers = Peers(
            NUMBER, lambda node_id: PeerAddress(host_of(node_id), PORT, 0), SimClock(client.loop)
        )
        return client

    async def produce(self, client: SimClient, batch: bytes) -> Any:
        data = PartitionProduceData(index=i32(0), records=cast(Any, batch))
        request = ProduceRequest(
            transactional_id=None,
            acks=i16(1),
            timeout=milliseconds(TIMEOUT_MS),
            topic_data=(TopicProduceData(name=TopicName("t"), partition_data=(data,)),),
        )
        response = await client.peers.call(
            self.leader, ApiKey.PRODUCE, 9, request, timeout_ms=60_000, channel="data"
        )
        assert response.responses[0].partition_responses[0].error_code is ErrorCode.none
        return response

    async def fetch(self, client: SimClient) -> Any:
        partition = FetchPartition(partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(1 << 20))
        request = FetchRequest(
            max_wait=milliseconds(0),
            min_bytes=i32(0),
            max_bytes=i32(50 << 20),
            isolation_level=i8(0),
            session_id=i32(0),
            session_epoch=i32(-1),
            topics=(FetchTopic(topic=TopicName("t"), partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        return await client.peers.call(
            self.leader, ApiKey.FETCH, 12, request, timeout_ms=60_000, channel="data"
        )

    async def bytes_in_30_s(self, once: Callable[[], Awaitable[int]]) -> int:
        """Call `once` again and again for 30 seconds; return the sum."""
        end_s, total = self.cluster.loop.now + SECONDS, 0
        while self.cluster.loop.now < end_s:
            total += await once()
        return total


@pytest.mark.parametrize("size", [16_000, 64_000, 700_000])
@pytest.mark.parametrize("connections", [1, 3])
def test_a_greedy_producer_gets_its_rate_within_ten_percent_over_30_seconds(
    size: int, connections: int
) -> None:
    scene, batch, throttled = Scene(nodes=1), batch_of(size), []

    async def main() -> int:
        await scene.begin(producer_byte_rate=QUOTA)

        async def run() -> int:
            client = scene.greedy_client()

            async def once() -> int:
                response = await scene.produce(client, batch)
                throttled.append(response.throttle_time)
                return len(batch)

            return await client.process.spawn(scene.bytes_in_30_s(once))

        return sum(await asyncio.gather(*(run() for _ in range(connections))))

    total = scene.cluster.run(main())
    pipelined = len(batch) * connections  # requests in flight when the time is over
    assert total == pytest.approx(QUOTA * SECONDS, abs=0.1 * QUOTA * SECONDS + pipelined)
    assert any(throttled)


def test_a_greedy_consumer_gets_its_rate_within_ten_percent_over_30_seconds() -> None:
    scene = Scene(nodes=1)
    empty: list[bool] = []

    async def main() -> int:
        await scene.begin(consumer_byte_rate=QUOTA)
        writer = scene.cluster.new_client()
        for _ in range(20):
            await writer.process.spawn(scene.produce(writer, batch_of(100_000)))

        async def run() -> int:
            client = scene.greedy_client()

            async def once() -> int:
                response = await scene.fetch(client)
                records = [each.records for topic in response.responses for each in topic.partitions]
                empty.append(not records)
                return sum(len(each or b"") for each in records)

            return await client.process.spawn(scene.bytes_in_30_s(once))

        return sum(await asyncio.gather(run(), run()))

    total = scene.cluster.run(main())
    assert total == pytest.approx(QUOTA * SECONDS, rel=0.1)
    assert any(empty), "a second connection asks while the quota is used up"


def test_others_do_not_notice_a_client_that_is_throttled() -> None:
    """The slowest answer to a client without a quota, on the same leader, is as fast as without the other."""

    def slowest(with_greedy: bool) -> float:
        scene = Scene(nodes=3)

        async def main() -> float:
            await scene.begin(producer_byte_rate=QUOTA)
            greedy = scene.greedy_client()

            async def once() -> int:
                await scene.produce(greedy, batch_of(300_000))
                return 1

            if with_greedy:
                for _ in range(5):
                    greedy.process.spawn(scene.bytes_in_30_s(once))
            polite, times = scene.cluster.new_client(), []
            for _ in range(200):
                started = scene.cluster.loop.now
                response = await polite.process.spawn(scene.produce(polite, batch_of(100)))
                assert not response.throttle_time
                times.append(scene.cluster.loop.now - started)
                await asyncio.sleep(0.05)
            return sorted(times)[-3]

        return scene.cluster.run(main())

    assert slowest(with_greedy=True) <= 2 * slowest(with_greedy=False)


def test_followers_are_not_throttled_by_the_quota_of_their_client_id() -> None:
    """A quota for every client id: what is written is replicated at full speed."""
    scene = Scene(nodes=3)

    async def main() -> None:
        await scene.begin(consumer_byte_rate=1000, request_percentage=0.001)
        writer = scene.cluster.new_client()
        entity = EntityData(entity_type="client-id", entity_name=None)
        ops = tuple(
            OpData(key=key, value=f64(1000), remove=False)
            for key in ("consumer_byte_rate", "controller_mutation_rate")
        )
        request = AlterClientQuotasRequest(
            entries=(EntryData(entity=(entity,), ops=ops),), validate_only=False
        )
        await writer.process.spawn(writer.call(writer.any_node(), ApiKey.ALTER_CLIENT_QUOTAS, 1, request))
        for _ in range(10):
            await writer.process.spawn(scene.produce(writer, batch_of(100_000)))
        leader = scene.cluster.nodes[scene.leader].broker
        assert leader is not None
        partition = leader.partitions.get("t", 0)
        assert await scene.cluster.wait_until(lambda: partition.high_watermark == 10, 5.0)

    scene.cluster.run(main())
