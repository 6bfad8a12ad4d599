"""The lag of groups, from committed offsets and partitions that are only pretended."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from ottla.common.ids import TopicPartition, new_uuid
from ottla.common.lag import Lag
from ottla.coordinator import lag as lag_module
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.lag import PartitionLag, RecordTimes, ReplicaToRead, group_lag
from ottla.protocol.errors import KafkaStorageError
from ottla.replication.partition import Partition

NOW_MS = 1_700_000_000_000


@dataclass
class Pretended:
    """A partition whose record at offset N is N seconds younger than 100 seconds."""

    start_offset: int
    end_offset: int

    def timestamp_from(self, offset: int) -> int:
        assert self.start_offset <= offset < self.end_offset
        return NOW_MS - 100_000 + 1000 * offset


def committed(offset: int) -> OffsetValue:
    return OffsetValue(offset, -1, "", NOW_MS, -1)


def lags(partition: Pretended | None, *offsets: int) -> list[PartitionLag]:
    kept = tuple((index, committed(offset)) for index, offset in enumerate(offsets))
    return list(group_lag((("orders", kept),), lambda topic, index: partition, NOW_MS))


def test_each_partition_has_its_lag_in_records_and_in_seconds() -> None:
    assert lags(Pretended(0, 10), 0, 7) == [
        PartitionLag("orders", 0, 0, 10, Lag(10, 100.0)),
        PartitionLag("orders", 1, 7, 10, Lag(3, 93.0)),
    ]


def test_at_the_end_and_beyond_it_there_is_no_lag() -> None:
    assert [each.lag for each in lags(Pretended(0, 10), 10, 12)] == [Lag(0, 0.0), Lag(0, 0.0)]


def test_where_retention_has_deleted_what_comes_next_the_oldest_record_counts() -> None:
    assert [each.lag for each in lags(Pretended(5, 10), 2)] == [Lag(8, 95.0)]


def test_partitions_led_elsewhere_have_an_offset_and_no_lag() -> None:
    assert lags(None, 3) == [PartitionLag("orders", 0, 3)]


def test_what_was_never_committed_has_no_line() -> None:
    assert list(group_lag((("orders", ((0, None),)),), lambda topic, index: Pretended(0, 1), NOW_MS)) == []


class CountingLog:
    """A log that counts how often it is asked for the time of a record."""

    def __init__(self, answer: int | None) -> None:
        self.answer = answer
        self.asked = 0

    def timestamp_from(self, offset: int, end_offset: int) -> int | None:
        self.asked += 1
        return self.answer


def partition_on(log: Any) -> Partition:
    return cast(
        Partition,
        SimpleNamespace(
            topic_id=new_uuid(),
            topic_partition=TopicPartition("orders", 0),
            log=log,
            high_watermark=10,
            log_start_offset=2,
        ),
    )


def test_the_same_record_is_read_once() -> None:
    log, times = CountingLog(NOW_MS), RecordTimes()
    partition = partition_on(log)
    assert [times.get(partition, 3) for _ in range(5)] == [NOW_MS] * 5
    assert log.asked == 1
    times.get(partition, 4)
    assert log.asked == 2


def test_a_record_that_is_not_there_yet_is_looked_for_again() -> None:
    log, times = CountingLog(None), RecordTimes()
    partition = partition_on(log)
    assert times.get(partition, 3) is None
    log.answer = NOW_MS
    assert times.get(partition, 3) == NOW_MS


def test_only_so_many_times_are_remembered(monkeypatch: Any) -> None:
    monkeypatch.setattr(lag_module, "MAX_CACHED_TIMES", 10)
    log, times = CountingLog(NOW_MS), RecordTimes()
    partition = partition_on(log)
    for offset in range(1000):
        times.get(partition, offset)
    assert len(times._times) <= 10


def test_a_led_partition_goes_from_its_log_start_to_its_high_watermark() -> None:
    led = ReplicaToRead(partition_on(CountingLog(NOW_MS)), RecordTimes())
    assert (led.start_offset, led.end_offset, led.timestamp_from(3)) == (2, 10, NOW_MS)


def test_a_record_that_cannot_be_read_has_no_age() -> None:
    class Broken:
        def timestamp_from(self, offset: int, end_offset: int) -> int:
            raise KafkaStorageError("the disk is gone")

    assert ReplicaToRead(partition_on(Broken()), RecordTimes()).timestamp_from(3) is None
