"""Ranges are read to their end, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from ottla.client.errors import ConnectionLost
from ottla.common.ids import TopicPartition
from ottla.common.listeners import Address
from ottla.protocol.fetch_client import Fetched, FetchReply
from ottla.protocol.records import Record, decode_records, encode_batch
from ottla.spark.planning import OffsetRange
from ottla.spark.range_reader import RangeReader, ReadSettings

RECORDS = 3


class TwoLeaders(RangeReader):
    """Partition 0 is led by broker 0, partition 1 by broker 1; broker 1 is lost at the first question."""

    asked_of_1 = 0

    async def _leader(self, reading: Any) -> int | None:
        return cast(int, reading.range.partition)

    async def _ask(
        self, node_id: int, readings: Mapping[TopicPartition, Any]
    ) -> tuple[FetchReply, dict[UUID | None, str]]:
        if node_id == 1:
            self.asked_of_1 += 1
            if self.asked_of_1 == 1:
                raise ConnectionLost(Address("broker.example", 9092), "killed")
        await asyncio.sleep(0)  # so that the answer comes after the other connection is lost
        values = [Record(at, 0, None, b"%d.%d" % (node_id, at)) for at in range(RECORDS)]
        records = memoryview(bytes(encode_batch(values)))
        fetched = Fetched(node_id, 0, RECORDS, RECORDS, 0, (), -1, records, None)
        return FetchReply(0, 0, 0, [("t", None, [fetched])], []), {}


async def test_what_one_leader_sends_is_not_lost_when_another_dies() -> None:
    backoff = SimpleNamespace(pause_ms=lambda failures: 0)
    cluster: Any = SimpleNamespace(backoff=backoff, forget=lambda topic: None)
    ranges = [OffsetRange("t", None, partition, 0, RECORDS) for partition in range(2)]
    reader = TwoLeaders(cluster, ranges, ReadSettings())
    read = []
    while pieces := await reader.next():
        for piece in pieces:
            for _, batch in piece.batches:
                read += [record.value for record in decode_records(bytes(batch), max_bytes=1 << 20)]
    assert sorted(read) == [b"%d.%d" % (node, at) for node in range(2) for at in range(RECORDS)]
