"""A partition with transactions: how far readers of committed records see, and when they are woken."""

from __future__ import annotations

import pytest
from tests.unit.log.bench import LogBench, make_batch, stored_bytes
from tests.unit.log.transaction_bench import TransactionalProducer

from ottla.common.ids import new_uuid
from ottla.log.directories.flusher import Flusher
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.control import Marker
from ottla.replication.partition import Partition
from ottla.replication.purgatory import Purgatory


class PartitionBench:
    """One partition, one producer, and readers that wait."""

    def __init__(self, **config: int) -> None:
        self.log_bench = LogBench(**config)
        self.flusher = Flusher()
        self.purgatory = Purgatory()
        self.producer = TransactionalProducer(1)
        log = self.log_bench.log
        self.partition = Partition(log, new_uuid(), 0, self.flusher, log.clock, set())

    def write_plainly(self) -> None:
        batch = make_batch("plain")
        self.partition.append(batch, check_batch(batch))

    def write(self) -> None:
        log = self.partition.log
        before = log.log_end_offset
        self.producer.write(log, "in a transaction")
        self.partition._advance(log.log_end_offset, log.log_end_offset - before)

    def end(self, *, commit: bool) -> int:
        marker = Marker(1, self.producer.epoch, commit, 0)
        return self.partition.append_marker(marker).last_offset

    def wait(self, owner: str, needed_bytes: int = 1, *, committed_only: bool = True) -> list[int]:
        """Return a list to which the last stable offset is added when the wait is over."""
        woken: list[int] = []
        self.purgatory.park(
            owner,
            [self.partition],
            needed_bytes,
            60_000,
            lambda: woken.append(self.partition.last_stable_offset),
            committed_only=committed_only,
        )
        return woken


@pytest.fixture
async def bench() -> PartitionBench:
    return PartitionBench()


async def test_the_last_stable_offset_stops_at_an_open_transaction(bench: PartitionBench) -> None:
    bench.write_plainly()
    bench.write()
    bench.write_plainly()
    assert (bench.partition.last_stable_offset, bench.partition.high_watermark) == (1, 3)
    bench.end(commit=True)
    assert bench.partition.last_stable_offset == bench.partition.high_watermark == 4


async def test_who_reads_committed_records_is_not_woken_by_an_open_transaction(bench: PartitionBench) -> None:
    committed, any_record = bench.wait("a"), bench.wait("b", committed_only=False)
    bench.write()
    assert (committed, any_record) == ([], [0])
    bench.write_plainly()
    assert committed == []
    bench.end(commit=False)
    assert committed == [3]


async def test_who_comes_while_a_transaction_is_open_is_woken_by_its_end(bench: PartitionBench) -> None:
    bench.write()
    woken = bench.wait("a", needed_bytes=10_000)
    bench.write_plainly()
    assert woken == []
    bench.end(commit=True)
    assert woken == [3]


async def test_a_transaction_that_ends_behind_another_one_wakes_no_fetch(bench: PartitionBench) -> None:
    other = TransactionalProducer(2)
    other.write(bench.partition.log, "first")
    bench.partition._advance(bench.partition.log.log_end_offset, 1)
    bench.write()
    woken = bench.wait("a")
    bench.end(commit=True)
    assert woken == []
    bench.partition.append_marker(Marker(2, 0, True, 0))
    assert woken == [4]


async def test_without_transactions_bytes_are_counted(bench: PartitionBench) -> None:
    woken = bench.wait("a", needed_bytes=150)
    bench.write_plainly()
    assert woken == []
    bench.write_plainly()
    assert woken == [2]


async def test_aborted_transactions_are_reported_with_what_is_read(bench: PartitionBench) -> None:
    bench.write()
    bench.end(commit=False)
    bench.write_plainly()
    partition = bench.partition
    found = partition.read(0, 1 << 20, partition.last_stable_offset, at_least_one=True)
    assert stored_bytes(found.records)
    assert partition.aborted_transactions_in(0, found) == [(1, 0)]
    nothing = partition.read(3, 1 << 20, 3, at_least_one=True)
    assert partition.aborted_transactions_in(3, nothing) == ()


async def test_a_marker_that_is_not_on_the_disk_does_not_count_when_acks_wait_for_it() -> None:
    bench = PartitionBench(flush_messages=1)
    async with bench.flusher:
        log = bench.partition.log
        bench.producer.write(log, "a")
        bench.partition._advance(log.log_end_offset, 1)
        offset = bench.end(commit=True)
        committed = bench.partition.when_committed(offset + 1)
        assert committed is not None
        assert bench.partition.last_stable_offset == 0
        await committed
        assert bench.partition.last_stable_offset == offset + 1


async def test_a_new_leader_knows_the_end_once_its_epoch_is_committed(bench: PartitionBench) -> None:
    bench.write_plainly()
    log = bench.partition.log
    again = Partition(log, new_uuid(), 1, bench.flusher, log.clock, set())
    assert again.is_high_watermark_valid
    again.high_watermark = 0
    assert not again.is_high_watermark_valid
