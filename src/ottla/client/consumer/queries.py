"""What applications ask of a consumer beside records: positions, offsets, pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from ottla.client.admin.group_types import OffsetAndMetadata
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.fetching.partition_state import Need
from ottla.client.consumer.membership.commits import CommitCallback
from ottla.client.offsets import OffsetAndTime, list_offsets
from ottla.common.ids import TopicPartition
from ottla.wire.backoff import within

Given = Mapping[TopicPartition, int | OffsetAndMetadata]


class Queries:
    """The calls that both faces of the consumer share."""

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        self._assignment = core.assignment

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on from an offset."""
        wanted = _with_metadata(offset)
        if wanted.offset < 0:
            raise ValueError(f"an offset is 0 or more, not {wanted.offset}")
        with self._assignment.lock:
            self._assignment[partition].seek(wanted.offset, wanted.leader_epoch)
        self._core.kick()

    def seek_to(self, time: int, partitions: Collection[TopicPartition]) -> None:
        """Go to the offset of a time, of the beginning or of the end."""
        with self._assignment.lock:
            for partition in partitions or self._assignment.partitions:
                self._assignment[partition].require(Need.RESET, time)
        self._core.kick()

    async def position(self, partition: TopicPartition, timeout_ms: float | None) -> int:
        """Return the offset of the next record."""
        timeout_ms = self._core.options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        async with within(timeout_ms, f"the position of {partition} was not found"):
            return await self._core.position(partition)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing of partitions."""
        with self._assignment.lock:
            for partition in partitions:
                self._assignment[partition].is_paused = True

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out records of partitions again."""
        for partition in partitions:
            state = self._assignment[partition]
            state.is_paused = False
            if state.has_records:
                self._assignment.line_up(state)
        self._core.kick()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return frozenset(state.partition for state in self._assignment if state.is_paused)

    async def commit(self, offsets: Given | None, timeout_ms: float | None) -> None:
        """Commit offsets, or the positions."""
        group = self._core.need_group("committing")
        await group.commits.commit(self._to_commit(offsets), timeout_ms)

    def commit_async(self, offsets: Given | None, on_done: CommitCallback | None) -> asyncio.Task[None]:
        """Commit in the background."""
        return self._core.need_group("committing").queue.post(self._to_commit(offsets), on_done)

    def _to_commit(self, offsets: Given | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._assignment.consumed()
        return {TopicPartition(*partition): _with_metadata(offset) for partition, offset in offsets.items()}

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed."""
        wanted = [TopicPartition(*each) for each in partitions]
        found = await self._core.need_group("asking for committed offsets").commits.fetch(wanted, timeout_ms)
        return {each: found.get(each) for each in wanted}

    async def offsets_at(
        self, time: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the beginning or the end of partitions."""
        found = await self._offsets({TopicPartition(*each): time for each in partitions})
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTime | None]:
        """Return the first record at or after each time."""
        if any(time < 0 for time in times.values()):
            raise ValueError("times are milliseconds since 1970; see beginning_offsets and end_offsets")
        found = await self._offsets(times)
        return {partition: answer if answer.offset >= 0 else None for partition, answer in found.items()}

    async def _offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTime]:
        options = self._core.options
        level = int(options.reads_committed)
        async with within(options.default_api_timeout_ms, "the offsets were not found"):
            return await list_offsets(self._core.cluster, times, isolation_level=level)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition as the last fetch showed it."""
        found = self._assignment[partition].high_watermark
        return None if found < 0 else found

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets are left to read."""
        state = self._assignment[partition]
        end = state.last_stable_offset if self._core.options.reads_committed else state.high_watermark
        return None if end < 0 or state.position < 0 else max(end - state.position, 0)


def _with_metadata(offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset) if isinstance(offset, int) else OffsetAndMetadata(*offset)
