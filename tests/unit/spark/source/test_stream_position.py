"""How far a stream may be read: little at a time, not too little, and no further than was said."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import pytest

from ottla.client.cluster import Cluster
from ottla.common.clock import ManualClock
from ottla.common.ids import TopicPartition
from ottla.spark.errors import DataLoss
from ottla.spark.source.offsets import SourceOffset
from ottla.spark.source.options import read_source_options
from ottla.spark.source.stream_position import StreamPosition
from ottla.spark.source.topic_watch import TopicWatch

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
START = SourceOffset({A: 0, B: 0}, {"t": "id"})


class Watch:
    """Topics that a test moves on."""

    def __init__(self, ends: Mapping[TopicPartition, int]) -> None:
        self.now = dict(ends)
        self.topic_ids = {"t": "id"}
        self.waits = 0

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self.now)

    async def refresh(self) -> None:
        pass

    async def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {at: self.now[at] for at in partitions}

    async def beginnings(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def wait_for_records(self, positions: Mapping[TopicPartition, int], wait_ms: int) -> None:
        self.waits += 1


def position(watch: Watch, clock: ManualClock, **options: str) -> StreamPosition:
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", **options}
    read = read_source_options(given, is_stream=True)
    made = StreamPosition(Cluster(options=read.consumer), read, clock)
    made._watch = cast(TopicWatch, watch)
    return made


async def test_too_little_waits_until_there_is_enough() -> None:
    watch, clock = Watch({A: 3, B: 4}), ManualClock()
    here = position(watch, clock, minOffsetsPerTrigger="10")
    assert await here.next_end(START, None) is None
    assert watch.waits == 1
    watch.now[B] = 7
    end = await here.next_end(START, None)
    assert end is not None
    assert end.positions == {A: 3, B: 7}


async def test_too_little_is_read_after_the_longest_delay_and_the_delay_begins_anew() -> None:
    watch, clock = Watch({A: 3, B: 0}), ManualClock()
    here = position(watch, clock, minOffsetsPerTrigger="10", maxTriggerDelay="5s")
    clock.advance(4_999)
    assert await here.next_end(START, None) is None
    clock.advance(1)
    end = await here.next_end(START, None)
    assert end is not None
    assert end.positions == {A: 3, B: 0}
    watch.now[A] = 4
    clock.advance(4_999)
    assert await here.next_end(end, None) is None
    clock.advance(1)
    assert await here.next_end(end, None) is not None


async def test_a_query_that_is_to_end_does_not_wait_for_more() -> None:
    watch = Watch({A: 3, B: 0})
    here = position(watch, ManualClock(), minOffsetsPerTrigger="10")
    await here.fix_end()
    watch.now[A] = 9
    end = await here.next_end(START, None)
    assert end is not None
    assert end.positions == {A: 3, B: 0}
    assert await here.next_end(end, None) is None
    assert watch.waits == 0


async def test_a_limit_holds_and_nothing_new_is_no_batch() -> None:
    watch = Watch({A: 100, B: 100})
    here = position(watch, ManualClock())
    end = await here.next_end(START, 10)
    assert end is not None
    assert sum(end.positions.values()) == 10
    assert await here.next_end(SourceOffset({A: 100, B: 100}, {"t": "id"}), 10) is None


async def test_the_checkpoint_of_another_query_is_reported_by_what_is_not_there() -> None:
    here = position(Watch({A: 3, B: 0}), ManualClock())
    with pytest.raises(DataLoss, match=r"other-0, which this query does not read: .* of another query"):
        await here.next_end(SourceOffset({TopicPartition("other", 0): 5}), None)
    with pytest.raises(DataLoss, match="t-2 does not exist any more"):
        await here.next_end(SourceOffset({A: 1, B: 0, TopicPartition("t", 2): 5}, {"t": "id"}), None)
    with pytest.raises(DataLoss, match="deleted and recreated"):
        await here.next_end(SourceOffset({A: 1, B: 0}, {"t": "another id"}), None)
    with pytest.raises(DataLoss, match="ends at offset 3"):
        await here.next_end(SourceOffset({A: 50, B: 0}, {"t": "id"}), None)


async def test_a_query_that_is_to_end_fails_if_a_log_ends_before_its_position() -> None:
    """A truncated or recreated log: its next records would never be read."""
    watch = Watch({A: 3, B: 9})
    here = position(watch, ManualClock())
    await here.fix_end()
    with pytest.raises(DataLoss, match="t-0 ends at offset 3, but 50 was to be read next"):
        await here.next_end(SourceOffset({A: 50, B: 2}, {"t": "id"}), None)


async def test_without_fail_on_data_loss_a_query_that_is_to_end_continues_at_the_end_of_the_log() -> None:
    watch = Watch({A: 3, B: 9})
    here = position(watch, ManualClock(), failOnDataLoss="false")
    await here.fix_end()
    end = await here.next_end(SourceOffset({A: 50, B: 2}, {"t": "id"}), None)
    assert end is not None
    assert end.positions == {A: 3, B: 9}


async def test_a_new_partition_is_read_from_its_beginning() -> None:
    here = position(Watch({A: 3, B: 4}), ManualClock())
    end = await here.next_end(SourceOffset({A: 3}, {"t": "id"}), None)
    assert end is not None
    ranges = await here.ranges(SourceOffset({A: 3}, {"t": "id"}), end)
    assert [(each.partition, each.start, each.end) for each in ranges] == [(1, 0, 4)]
