"""Brokers that are starved of CPU time: replication is slower than a producer with many requests in flight.

The producer is not idempotent, and has no timeouts: what is in the log twice, a broker made it send twice.
"""

from __future__ import annotations

import asyncio
import os

import pytest
from kio.schema.errors import ErrorCode

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.primitives import encode_string
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.schema.messages import response_decoder
from ottla.testing.simulation.client import SimClient
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.producer import _HEAD, _PARTITION, PRODUCE_VERSION

PLACE = TopicPartition("t", 0)
IN_FLIGHT = 64
SECONDS = 4.0
NO_TIMEOUT_MS = 100_000
BATCH_BYTES = 100_000
CALLBACK_S = 0.003
"""On followers; the leader is four times as fast."""


class EagerProducer:
    """Sends as fast as it may, always with the same number of requests in flight."""

    def __init__(self, client: SimClient, acks: int) -> None:
        self.acked = 0
        self.errors: list[ErrorCode] = []
        self._client = client
        self._acks = acks
        self._records = encode_batch([Record(0, 0, None, os.urandom(BATCH_BYTES))])

    async def run(self) -> None:
        """Send for a while, and everything again that was refused."""
        leader = (await self._client.leader(PLACE)).node_id
        end_s = self._client.loop.now + SECONDS

        async def send() -> None:
            while self._client.loop.now < end_s:
                while (code := await self._attempt(leader)) is not ErrorCode.none:
                    self.errors.append(code)
                    await self._client.pause()
                self.acked += 1

        await asyncio.gather(*(send() for _ in range(IN_FLIGHT)))

    async def _attempt(self, leader: int) -> ErrorCode:
        head = _HEAD.pack(-1, self._acks, NO_TIMEOUT_MS, 1)
        body = head + encode_string(PLACE.topic) + _PARTITION.pack(1, 0, len(self._records)) + self._records
        frame, at = await self._client.peers.exchange(
            leader, ApiKey.PRODUCE, PRODUCE_VERSION, body, timeout_ms=NO_TIMEOUT_MS, channel="eager"
        )
        response = response_decoder(ApiKey.PRODUCE, PRODUCE_VERSION, PRODUCE_VERSION)(frame, at)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("acks", [-1, 1])
def test_followers_that_are_slower_than_a_producer_stay_in_sync_and_nothing_is_doubled(acks: int) -> None:
    cluster = SimCluster(1, 3, {"replica.lag.time.max.ms": "1500"}, session_timeout_s=10)
    isrs: set[tuple[int, ...]] = set()
    producer = EagerProducer(cluster.new_client(), acks)

    async def main() -> None:
        for node in cluster.nodes.values():
            node.start()
        client = cluster.new_client()
        await client.process.spawn(client.create_topic("t", 1, 3, {"min.insync.replicas": "2"}))
        assert await cluster.wait_until(lambda: _isr(cluster) == (1, 2, 3), 5)
        leader = (await client.process.spawn(client.leader(PLACE))).node_id
        for node in cluster.nodes.values():
            node.starve(CALLBACK_S if node.node_id != leader else CALLBACK_S / 4)
        sending = client.process.spawn(producer.run())
        while not sending.done():
            isrs.add(_isr(cluster))
            await asyncio.sleep(0.05)
        sending.result()
        for node in cluster.nodes.values():
            node.starve(0)
        log = cluster.nodes[leader].broker.log_directories.logs[PLACE]
        assert log.log_end_offset == producer.acked, f"{log.log_end_offset - producer.acked} are doubled"

    cluster.run(main())
    print(f"{producer.acked} acknowledged, ISRs {isrs}")
    assert producer.acked > 100
    assert not producer.errors
    assert isrs == {(1, 2, 3)}


def _isr(cluster: SimCluster) -> tuple[int, ...]:
    known = cluster.image.partition(*PLACE)
    return () if known is None else tuple(sorted(known.isr))
