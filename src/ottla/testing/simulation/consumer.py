"""A simulated consumer: reads from leaders, or from replicas in its rack, and records the history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import check_crc, iter_batches
from ottla.protocol.records.records import decode_records
from ottla.testing.history import History, Read, value_of
from ottla.testing.simulation.client import SimClient

ASK_LEADER = 0.1
"""How often a consumer with a rack asks the leader again for its preferred replica."""


class SimConsumer:
    """Reads until it is stopped."""

    def __init__(
        self, client: SimClient, history: History, name: str, positions: Mapping[TopicPartition, int]
    ) -> None:
        self.problems: list[str] = []
        """Errors that no consumer should ever get."""
        self.positions = dict(positions)
        self.records: dict[TopicPartition, list[Read]] = {place: [] for place in positions}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.is_stopping = False
        self._client = client
        self._history = history
        self._name = name

    async def run(self) -> None:
        """Read every partition, until `is_stopping`."""
        await asyncio.gather(*(self._follow(place) for place in self.positions))

    async def _follow(self, place: TopicPartition) -> None:
        client = self._client
        self._history.sought(self._name, place, self.positions[place])
        replica = -1
        while not self.is_stopping:
            try:
                leader = await client.leader(place)
                node_id = replica if replica >= 0 else leader.node_id
                answer = await self._fetch(place, node_id, leader.epoch)
            except KafkaError:
                answer = None
            if answer is None:
                replica = -1
                client.forget(place)
                await client.pause()
            elif answer.preferred_read_replica >= 0:
                replica = answer.preferred_read_replica
            else:
                # A follower's high watermark may be lower than what its leader has returned before.
                self._take(place, answer, leader.epoch if replica < 0 else -1)
                if client.chance.random() < ASK_LEADER:
                    replica = -1

    async def _fetch(self, place: TopicPartition, node_id: int, leader_epoch: int) -> Any:
        """Fetch once; return what came, or None if it has to be tried again."""
        answer = await self._client.fetch(node_id, place, self.positions[place], leader_epoch, self._name)
        if answer is None:
            return None
        if answer.error_code is ErrorCode.offset_out_of_range:
            await self._on_out_of_range(place, node_id)
        return answer if answer.error_code is ErrorCode.none else None

    async def _on_out_of_range(self, place: TopicPartition, node_id: int) -> None:
        """Report a broker that has not what is read next: nothing is deleted."""
        self.problems.append(
            f"{self._name}: broker {node_id} says that {place} has no offset {self.positions[place]}"
        )

    def _take(self, place: TopicPartition, answer: Any, leader_epoch: int) -> None:
        position = self.positions[place]
        records: list[Read] = []
        for header, batch in iter_batches(memoryview(answer.records or b"")):
            check_crc(batch, header)
            records += [
                (each.offset, value_of(each)) for each in decode_records(batch) if each.offset >= position
            ]
            self.positions[place] = max(self.positions[place], header.next_offset)
        self.records[place] += records
        if records or self.high_watermarks.get(place) != answer.high_watermark:
            self._history.polled(self._name, place, position, records, answer.high_watermark, leader_epoch)
        self.high_watermarks[place] = answer.high_watermark
