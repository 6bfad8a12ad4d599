"""A log against a list of batches: whatever is done to it, it holds what the list holds.

After a power failure the log may hold less: then everything that was flushed must be there, everything
else is there as it was appended or not at all, and the list continues with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.log.bench import LogBench, append, flush, idempotent, make_batch, read_batches, stored_bytes

from ottla.log.log_types import AppendResult
from ottla.protocol.errors import KafkaStorageError, OffsetOutOfRange, OutOfOrderSequenceNumber
from ottla.protocol.records.batch import decode_header, iter_batches


@dataclass(frozen=True)
class Stored:
    """One batch of the model."""

    base_offset: int
    last_offset: int
    data: bytes
    timestamp: int
    epoch: int
    producer: tuple[int, int] | None
    """Producer id and first sequence number."""


class LogMachine(RuleBasedStateMachine):
    """Append, read, cut, restart, crash."""

    @initialize(
        segment_bytes=st.sampled_from([600, 1200, 1 << 20]),
        interval=st.sampled_from([1, 150, 4096]),
        flush_messages=st.sampled_from([1, 1 << 62]),
    )
    def start(self, segment_bytes: int, interval: int, flush_messages: int) -> None:
        self.bench = LogBench(
            segment_bytes=segment_bytes, index_interval_bytes=interval, flush_messages=flush_messages
        )
        self.model: list[Stored] = []
        self.flushed: list[Stored] = []
        self.epoch = 0
        self.count = 0
        self.sequences: dict[int, int] = {}

    # Appending
    def stored(
        self, batch: memoryview, result: AppendResult, producer: tuple[int, int] | None = None
    ) -> None:
        """Take an append into the model; `batch` was stamped in place."""
        timestamp = int.from_bytes(batch[35:43], "big", signed=True)
        self.model.append(
            Stored(result.base_offset, result.last_offset, bytes(batch), timestamp, self.epoch, producer)
        )

    def values(self, count: int) -> list[str]:
        self.count += 1
        return [f"{self.count}.{i}" + "x" * (self.count * 37 % 90) for i in range(count)]

    @rule(count=st.integers(1, 4), later=st.integers(-3, 5), codec=st.sampled_from([0, 0, 1, 3]))
    def append_batch(self, count: int, later: int, codec: int) -> None:
        self.bench.clock.advance(max(later, 0))
        timestamp = self.bench.clock.now_ms + min(later, 0)
        batch = make_batch(*self.values(count), timestamp=timestamp, codec=codec)
        expected = self.bench.log.log_end_offset
        result = append(self.bench.log, batch, leader_epoch=self.epoch)
        assert (result.base_offset, result.last_offset) == (expected, expected + count - 1)
        self.stored(batch, result)

    @rule(producer_id=st.integers(1, 3), count=st.integers(1, 3))
    def append_in_sequence(self, producer_id: int, count: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        batch = idempotent(*self.values(count), sequence=sequence, producer_id=producer_id)
        result = append(self.bench.log, batch, leader_epoch=self.epoch)
        assert not result.is_duplicate
        self.stored(batch, result, (producer_id, sequence))
        self.sequences[producer_id] = sequence + count

    @rule(producer_id=st.integers(1, 3), back=st.integers(0, 6))
    def retry(self, producer_id: int, back: int) -> None:
        """A retried batch is recognised, or refused; it is never stored twice."""
        mine = [b for b in self.model if b.producer and b.producer[0] == producer_id]
        if back >= len(mine) or producer_id not in self.bench.log.producers.producers:
            return
        batch = memoryview(bytearray(mine[-1 - back].data))
        try:
            result = append(self.bench.log, batch, leader_epoch=self.epoch)
        except OutOfOrderSequenceNumber:
            assert back > 0
        else:
            assert result.is_duplicate
            assert result.base_offset == mine[-1 - back].base_offset

    @rule(producer_id=st.integers(1, 3), skip=st.integers(1, 5))
    def skip_a_sequence_number(self, producer_id: int, skip: int) -> None:
        if producer_id not in self.bench.log.producers.producers:
            return
        sequence = self.sequences[producer_id] + skip
        try:
            append(self.bench.log, idempotent("gap", sequence=sequence, producer_id=producer_id))
        except OutOfOrderSequenceNumber:
            return
        raise AssertionError("a gap in the sequence was accepted")

    @rule(room=st.integers(0, 150))
    def append_to_a_full_disk(self, room: int) -> None:
        disk = self.bench.disk
        disk.capacity_bytes = disk.used_bytes() + room
        batch = make_batch("y" * 200, timestamp=self.bench.clock.now_ms)
        try:
            append(self.bench.log, batch, leader_epoch=self.epoch)
        except KafkaStorageError:
            pass
        else:
            raise AssertionError("there was no room for this")
        finally:
            disk.heal()

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.bench.log.roll()

    # Cutting
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.bench.log.log_start_offset, self.bench.log.log_end_offset + 2))
        self.bench.log.truncate_to(offset)
        self.keep(lambda stored: stored.last_offset < offset)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.bench.log.log_end_offset))
        self.bench.log.delete_records_before(offset)

    @precondition(lambda self: len(self.bench.log.segments) > 1)
    @rule(count=st.integers(1, 2))
    def remove_segments(self, count: int) -> None:
        for name in self.bench.log.remove_segments(self.bench.log.sealed[:count], "a rule says so"):
            self.bench.disk.remove(name)
        first = self.bench.log.segments[0].base_offset
        self.keep(lambda stored: stored.base_offset >= first)

    def keep(self, stays: Any) -> None:
        self.model = [stored for stored in self.model if stays(stored)]
        self.flushed = [stored for stored in self.flushed if stays(stored)]
        self.count_sequences()

    def count_sequences(self) -> None:
        """Producers go on from what the log knows of them."""
        known = self.bench.log.producers.producers
        self.sequences = {producer_id: entry.last_sequence + 1 for producer_id, entry in known.items()}

    # Stopping and starting
    @rule(with_checkpoint=st.booleans())
    def flush(self, with_checkpoint: bool) -> None:
        if with_checkpoint:
            self.bench.flush()
        else:
            flush(self.bench.log)
        assert self.bench.log.recovery_point == self.bench.log.log_end_offset
        self.flushed = list(self.model)

    @rule()
    def restart(self) -> None:
        before = self.bench.log.producers.encode()
        self.bench.restart()
        assert self.bench.log.producers.encode() == before

    @rule()
    def kill(self) -> None:
        end = self.bench.log.log_end_offset
        self.bench.kill()
        for hole in self.bench.log.holes:  # left from a power failure; killing makes no new ones
            assert not any(hole.first_offset <= s.base_offset < hole.next_offset for s in self.model)
        if self.model:
            assert self.bench.log.log_end_offset == end
        self.count_sequences()

    @rule(seed=st.integers(0, 1 << 30))
    def cut_power(self, seed: int) -> None:
        if not self.bench.log.recovery_point:
            return  # nothing of this log has to be there, not even its directory
        self.bench.cut_power(seed)
        found = {data for _, data in read_all(self.bench)}
        start = self.bench.log.log_start_offset
        assert {stored.data for stored in self.flushed if stored.last_offset >= start} <= found
        lost = [stored for stored in self.model if stored.last_offset >= start and stored.data not in found]
        if self.bench.config.flush_messages == 1 and lost:
            after_it = [stored for stored in self.model if stored.base_offset > lost[0].base_offset]
            assert not any(stored.data in found for stored in after_it)
        self.keep(lambda stored: stored.data in found)
        for stored in lost:
            self.is_not_taken_for_a_duplicate(stored)

    def is_not_taken_for_a_duplicate(self, lost: Stored) -> None:
        try:
            assert self.bench.log.producers.check(decode_header(lost.data)) is None
        except OutOfOrderSequenceNumber:
            pass

    # Looking
    @invariant()
    def the_log_holds_what_the_model_holds(self) -> None:
        if hasattr(self, "bench"):
            assert [data for _, data in read_all(self.bench)] == [
                stored.data for stored in self.model if stored.last_offset >= self.bench.log.log_start_offset
            ]

    @rule(data=st.data(), max_bytes=st.integers(0, 2000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        log = self.bench.log
        offset = data.draw(st.integers(log.log_start_offset, log.log_end_offset))
        ends = [log.log_end_offset] + [
            stored.base_offset for stored in self.model if stored.base_offset > offset
        ]
        end = data.draw(st.sampled_from(ends))
        found = [
            bytes(batch) for _, batch in iter_batches(stored_bytes(log.read(offset, max_bytes, end).records))
        ]
        readable = [s.data for s in self.model if s.last_offset >= offset and s.base_offset < end]
        assert found == readable[: len(found)]
        assert found or not readable
        assert len(found) <= 1 or sum(map(len, found)) <= max_bytes
        for outside in (log.log_start_offset - 1, log.log_end_offset + 1):
            try:
                log.read(outside, 100, end)
            except OffsetOutOfRange:
                continue
            raise AssertionError(f"{outside} is out of range")

    @rule(back=st.integers(-2, 30))
    def find_by_time(self, back: int) -> None:
        start = self.bench.log.log_start_offset
        timestamp = self.bench.clock.now_ms - back
        match = next((s for s in self.model if s.timestamp >= timestamp and s.last_offset >= start), None)
        found = self.bench.log.offset_for_time(timestamp)
        assert (None if found is None else (found.offset, found.timestamp)) == (
            None if match is None else (max(match.base_offset, start), match.timestamp)
        )

    @rule()
    def find_the_latest(self) -> None:
        start = self.bench.log.log_start_offset
        live = [stored for stored in self.model if stored.last_offset >= start]
        found = self.bench.log.max_timestamp_offset()
        latest = max((stored.timestamp for stored in live), default=None)
        assert (None if found is None else found.timestamp) == latest

    @rule()
    def find_epochs(self) -> None:
        for stored in self.model:
            if stored.base_offset >= self.bench.log.log_start_offset:
                assert self.bench.log.epoch_for_offset(stored.base_offset) == stored.epoch


def read_all(bench: LogBench) -> list[tuple[Any, bytes]]:
    return read_batches(bench.log)


TestLogAgainstAList = LogMachine.TestCase
TestLogAgainstAList.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
