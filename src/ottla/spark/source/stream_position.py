"""The end of a stream's next batch: new partitions, limits, deleted topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.client.cluster import Cluster
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import UnknownTopicOrPartition
from ottla.spark.errors import DataLoss
from ottla.spark.source.offsets import SourceOffset, count_between, limit_by_lag
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import OffsetRange
from ottla.spark.source.topic_watch import TopicWatch

log = logging.getLogger(__name__)

REFRESH_INTERVAL_MS = 1_000
"""How often to look for new topics and partitions."""


class StreamPosition:
    """Follows the end offsets of a stream's topics."""

    def __init__(self, cluster: Cluster, options: SourceOptions, clock: Clock) -> None:
        self.last_ends: dict[TopicPartition, int] = {}
        self._watch = TopicWatch(cluster, options)
        self._options = options
        self._clock = clock
        self._looked_ms: int | None = None
        self._last_batch_ms = clock.mono_ms()
        self._stop_at: dict[TopicPartition, int] | None = None

    async def first(self) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """Return the start of a new query, and the topic ids."""
        await self._refresh()
        self._watch.check_all_there()
        return await self._watch.offsets_at(
            self._options.starting, self._watch.partitions
        ), self._watch.topic_ids

    async def fix_end(self) -> None:
        """Fix the current end offsets as the end of the stream (trigger availableNow)."""
        await self._refresh()
        self._stop_at = await self._watch.ends(self._watch.partitions)

    async def next_end(self, start: SourceOffset, most: int | None) -> SourceOffset | None:
        """Return the end of the next batch; None if there is nothing to read yet."""
        await self._refresh_if_due()
        try:
            end = await self._end(start, most)
        except UnknownTopicOrPartition:  # deleted since the last refresh
            await self._refresh()
            end = await self._end(start, most)
        if end is None and self._stop_at is None:
            await self._watch.wait_for_records(self.last_ends, self._options.wait_ms)
            end = await self._end(start, most)
        return end

    async def _end(self, start: SourceOffset, most: int | None) -> SourceOffset | None:
        begin = await self._still_there(start)
        ends = await self._ends(begin)
        if await self._has_shrunk(begin):
            begin = await self._still_there(start)
            ends = await self._ends(begin)
            self._check_not_shrunk(begin)
        ids = self._watch.topic_ids
        fresh = [topic_partition for topic_partition in ends if topic_partition not in begin]
        beginnings = await self._watch.beginnings(fresh)
        complete = {**begin, **beginnings}
        if self._is_too_little(complete, ends):
            return None
        if most is not None:
            ends = limit_by_lag(complete, ends, most)
        if ends == start.positions and ids == start.topic_ids:
            return None
        if ends == complete and not fresh and ids == start.topic_ids and len(ends) == len(start.positions):
            return None
        self._last_batch_ms = self._clock.mono_ms()
        return start.advanced_to(ends, ids)

    async def _ends(self, begin: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return where the next batch could end; `last_ends` are then the ends of the logs."""
        ends = await self._watch.ends(self._watch.partitions)
        self.last_ends = ends
        if self._stop_at is None:
            return ends
        found = {}
        for topic_partition, end in ends.items():
            if topic_partition in self._stop_at:
                stop = min(end, self._stop_at[topic_partition])
                # Records that were appended after the end was fixed may have been planned by an earlier run.
                found[topic_partition] = min(end, max(stop, begin.get(topic_partition, 0)))
        return found

    def _is_too_little(self, begin: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
        least = self._options.min_offsets
        if least is None or self._stop_at is not None or count_between(begin, ends) >= least:
            return False
        return self._clock.mono_ms() - self._last_batch_ms < self._options.max_delay_ms

    async def _still_there(self, start: SourceOffset) -> dict[TopicPartition, int]:
        """Return the positions whose topics are unchanged; with failOnDataLoss, raise if some are not."""
        ids = self._watch.topic_ids
        there = set(self._watch.partitions)
        kept = {}
        for topic_partition, offset in start.positions.items():
            if topic_partition not in there:
                self._lost(self._why_missing(topic_partition))
            elif start.topic_ids.get(topic_partition.topic, ids.get(topic_partition.topic)) != ids.get(
                topic_partition.topic
            ):
                self._lost(f"the topic {topic_partition.topic} was deleted and recreated")
            else:
                kept[topic_partition] = offset
        return kept

    async def _has_shrunk(self, begin: Mapping[TopicPartition, int]) -> bool:
        """Return whether a log ends before our position; then refresh the metadata."""
        ends = self.last_ends
        if all(ends.get(topic_partition, offset) >= offset for topic_partition, offset in begin.items()):
            return False
        await self._refresh()
        return True

    def _check_not_shrunk(self, begin: Mapping[TopicPartition, int]) -> None:
        ends = self.last_ends
        for topic_partition, offset in begin.items():
            if ends.get(topic_partition, offset) < offset:
                self._lost(
                    f"{topic_partition} ends at offset {ends[topic_partition]}, but {offset} was to "
                    "be read next"
                )

    def _why_missing(self, topic_partition: TopicPartition) -> str:
        """Return why a partition of the checkpoint is not read any more."""
        if self._options.topics.include(topic_partition):
            return f"{topic_partition} does not exist any more"
        return (
            f"the checkpoint has a position in {topic_partition}, which this query does not read: it "
            "is the checkpoint of "
            "another query, or the topics of this one were changed (then give it a new checkpoint)"
        )

    def _lost(self, what: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLoss(what)
        log.warning("%s; the query continues with the existing records (failOnDataLoss is false)", what)

    async def ranges(self, start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
        """Return the ranges between two offsets."""
        await self._refresh_if_due()
        begin = start.positions if end.began is None else end.began
        ids = {**self._watch.topic_ids, **end.topic_ids}
        known = start.topic_ids
        same = {
            topic_partition: offset
            for topic_partition, offset in begin.items()
            if known.get(topic_partition.topic, ids.get(topic_partition.topic))
            == ids.get(topic_partition.topic)
        }
        there = set(self._watch.partitions)
        fresh = [
            topic_partition
            for topic_partition in end.positions
            if topic_partition not in same and topic_partition in there
        ]
        beginnings = await self._watch.beginnings(fresh)
        found = []
        for topic_partition, stop in sorted(end.positions.items()):
            first = same.get(topic_partition, beginnings.get(topic_partition))
            if first is None:
                self._lost(self._why_missing(topic_partition))
            elif first < stop:
                found.append(
                    OffsetRange(
                        topic_partition.topic,
                        ids.get(topic_partition.topic),
                        topic_partition.partition,
                        first,
                        stop,
                    )
                )
        return found

    async def _refresh_if_due(self) -> None:
        now = self._clock.mono_ms()
        if self._looked_ms is None or now - self._looked_ms >= REFRESH_INTERVAL_MS:
            await self._refresh()

    async def _refresh(self) -> None:
        await self._watch.refresh()
        self._looked_ms = self._clock.mono_ms()
