"""Readers of committed records in a simulation, and of the offsets that transactions commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v7 import OffsetFetchRequest
from kio.schema.offset_fetch.v7.request import OffsetFetchRequestTopic

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import check_crc, iter_batches
from ottla.protocol.records.control import decode_marker
from ottla.protocol.records.records import decode_records
from ottla.protocol.types import GroupId, TopicName, i32
from ottla.testing.checker import Violation
from ottla.testing.history import Read
from ottla.testing.simulation.client import SimClient
from ottla.testing.simulation.transactions.attempts import SOURCE, TransactionHistory
from ottla.testing.simulation.transactions.calls import GROUP, TransactionCalls

READ_COMMITTED = 1


class CommittedReader:
    """Reads partitions from the start, and drops what was aborted, as Kafka's consumers do it."""

    def __init__(self, client: SimClient, name: str, places: Sequence[TopicPartition]) -> None:
        self.name = name
        self.violations: list[Violation] = []
        self.positions = dict.fromkeys(places, 0)
        self.records: dict[TopicPartition, list[Read]] = {place: [] for place in places}
        self.is_stopping = False
        self._client = client
        self._stable: dict[TopicPartition, tuple[int, int]] = {}

    async def run(self) -> None:
        """Read every partition, until `is_stopping`."""
        await asyncio.gather(*(self._follow(place) for place in self.positions))

    async def _follow(self, place: TopicPartition) -> None:
        client = self._client
        replica = -1
        while not self.is_stopping:
            try:
                leader = await client.leader(place)
                node_id = replica if replica >= 0 else leader.node_id
                answer = await self._fetch(place, node_id, leader.epoch)
            except KafkaError:
                answer = None
            from_leader, replica = replica < 0, -1
            if answer is None:
                client.forget(place)
                await client.pause()
            elif answer.preferred_read_replica >= 0:
                replica = answer.preferred_read_replica
            else:
                if from_leader:
                    self._look_at_end(place, answer.last_stable_offset, leader.epoch)
                self._take(place, answer)

    async def _fetch(self, place: TopicPartition, node_id: int, leader_epoch: int) -> Any:
        """Fetch once; return what came, or None if it has to be tried again."""
        answer = await self._client.fetch(
            node_id, place, self.positions[place], leader_epoch, self.name, READ_COMMITTED
        )
        if answer is None:
            return None
        if answer.error_code is ErrorCode.offset_out_of_range:
            detail = f"{self.name}: broker {node_id} says that {place} has no offset {self.positions[place]}"
            self.violations.append(Violation("wrong-answer", detail))
        return answer if answer.error_code is ErrorCode.none else None

    def _look_at_end(self, place: TopicPartition, stable: int, leader_epoch: int) -> None:
        """The last stable offset of one leader never falls."""
        epoch, before = self._stable.get(place, (-1, -1))
        if leader_epoch == epoch and stable < before:
            detail = f"{self.name}: {place} is stable up to {stable} after {before}, in epoch {epoch}"
            self.violations.append(Violation("backward-stable", detail))
        self._stable[place] = leader_epoch, stable

    def _take(self, place: TopicPartition, answer: Any) -> None:
        aborted = sorted(
            (int(each.first_offset), int(each.producer_id)) for each in answer.aborted_transactions or ()
        )
        dropped: set[int] = set()
        records: list[Read] = []
        position = self.positions[place]
        for header, batch in iter_batches(memoryview(answer.records or b"")):
            check_crc(batch, header)
            while aborted and aborted[0][0] <= header.last_offset:
                dropped.add(aborted.pop(0)[1])
            if header.is_control:
                marker = decode_marker(header, batch)
                if marker is not None and not marker.is_commit:
                    dropped.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in dropped:
                records += [
                    (each.offset, each.value or b"")
                    for each in decode_records(batch)
                    if each.offset >= position
                ]
            if header.next_offset > answer.last_stable_offset:
                detail = f"{self.name} got {header} of {place}, stable up to {answer.last_stable_offset}"
                self.violations.append(Violation("beyond-stable", detail))
            self.positions[place] = max(position, header.next_offset)
        self.records[place] += records


async def fetch_offset(calls: TransactionCalls, group: str) -> int | None:
    """Return a group's stable offset, -1 if it has none; None if that is not known now."""
    topic = OffsetFetchRequestTopic(name=TopicName(SOURCE.topic), partition_indexes=(i32(SOURCE.partition),))
    request = OffsetFetchRequest(group_id=GroupId(group), topics=(topic,), require_stable=True)
    node_id = await calls.coordinator(GROUP)
    if node_id is None:
        return None
    try:
        response = await calls.client.call(node_id, ApiKey.OFFSET_FETCH, 7, request, "offsets")
    except KafkaError:
        calls.forget()
        return None
    if response.error_code is not ErrorCode.none:
        calls.forget()
        return None
    found = response.topics[0].partitions[0]
    return int(found.committed_offset) if found.error_code is ErrorCode.none else None


class OffsetWatcher:
    """Asks for the stable offsets of groups, again and again."""

    def __init__(self, client: SimClient, ledger: TransactionHistory, groups: Sequence[str]) -> None:
        self.is_stopping = False
        self.client = client
        self._ledger = ledger
        self._calls = {group: TransactionCalls(client, "offsets", group, is_classic=True) for group in groups}

    async def run(self) -> None:
        """Ask until `is_stopping`."""
        while not self.is_stopping:
            await self.client.pause()
            group = self.client.chance.choice(list(self._calls))
            offset = await fetch_offset(self._calls[group], group)
            if offset is not None:
                self._ledger.offsets_seen.setdefault(group, set()).add(offset)

    async def last(self) -> dict[str, int]:
        """Return the offsets that groups have, however long it takes to know them."""
        offsets = {}
        for group, calls in self._calls.items():
            while (offset := await fetch_offset(calls, group)) is None:
                await self.client.pause()
            offsets[group] = offset
        return offsets
