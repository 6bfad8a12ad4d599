"""One replica's log: batches in segments, who produced them, and under which leader.

Everything here runs on the loop thread and returns at once; only `FlushJob.run`, and what `time_lookup`
and `max_time_lookup` return, goes to a thread.
An append is one write(2) to the page cache. What has to be durable is flushed (see flush.py);
what a crash leaves is put in order when the log is opened (see recovery.py).

Errors: KafkaStorageError when the disk fails. After a full disk the log is as it was before the
append, and the next append is tried afresh; after any other failed write or fsync the whole log
directory refuses writes until the broker restarts (see storage.py). Reads go on in either case; a
read that fails itself raises KafkaStorageError and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.log import log_lookup, time_search
from ottla.log.aborted_lookup import aborted_between
from ottla.log.admission import admit, check_header, check_size
from ottla.log.log_files import LogFiles
from ottla.log.log_types import Appended, LogRead, TimestampOffset
from ottla.log.refused_batches import RefusedBatches
from ottla.log.replay import aborted_of
from ottla.log.segment import TornAppend
from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.errors import KafkaStorageError, OffsetOutOfRange
from ottla.protocol.records.batch import (
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_crc,
    decode_header,
    iter_batches,
    stamp,
)
from ottla.protocol.records.control import Marker, decode_marker, encode_marker

T = TypeVar("T")


class Log(LogFiles):
    """One replica's log: append, read, look up. (What happens to its files is in `LogFiles`.)"""

    _refused = RefusedBatches()
    """Of this log, from its first failure on; until then there are none."""

    # Appending
    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        is_inspected: bool = False,
        marker: Marker | None = None,
    ) -> Appended:
        """Append one batch that `check_batch` has accepted, as the leader; it is stamped in place.

        `is_inspected` says that `look_inside` has seen it already: see admission.py; `marker` what is in
        a control batch, if that is known.
        """
        config = self._config
        if len(batch) > config.max_message_bytes and not header.is_control:
            check_size(len(batch), config)
        append_time = -1
        if self.inspects:
            batch, header, append_time = admit(batch, header, config, now_ms, is_inspected=is_inspected)
        elif (
            header.attributes & LOG_APPEND_TIME_BIT
            or header.max_timestamp - now_ms > config.timestamp_after_max_ms
        ):
            check_header(header, config, now_ms)
        if header.producer_id >= 0:
            producers = self.producers
            if self._refused:
                repeated = self._refused.check(header, producers, self.clock.mono_ms())
            else:
                repeated = producers.check(header)
            if repeated is not None:
                first, last = repeated.first_offset, repeated.last_offset
                stored_time = repeated.timestamp if config.uses_log_append_time else -1
                return Appended(first, last, stored_time, self.log_start_offset, True)
            if header.attributes & TRANSACTIONAL_BIT and not header.is_control:
                self.verifications.check(header, self.producers)
            if header.base_sequence >= 0 and header.producer_id not in producers.producers:
                self._admit_producer(header.producer_id)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamp(batch, base_offset, leader_epoch)
        try:
            self._write(batch, last_offset, header.max_timestamp, now_ms)
        except KafkaStorageError:
            self._refuse(header)
            raise
        if leader_epoch != self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self._update_producer(header, batch, last_offset, marker)
        return Appended(base_offset, last_offset, append_time, self.log_start_offset, False)

    def append_marker(self, marker: Marker, leader_epoch: int, now_ms: int) -> Appended:
        """Append the end of a producer's transaction, as the leader."""
        self.producers.check_marker(marker)
        batch = encode_marker(marker, now_ms)
        return self.append(batch, decode_header(batch), leader_epoch, now_ms, True, marker)

    def _admit_producer(self, producer_id: int) -> None:
        """Refuse a client's new producer if the broker remembers too many."""
        if self.storage.producer_limit is not None:
            self.storage.producer_limit.admit(producer_id)

    def _refuse(self, header: BatchHeader) -> None:
        if header.producer_id >= 0:
            if "_refused" not in vars(self):
                self._refused = RefusedBatches()
            self._refused.refuse(header, self.producers, self.clock.mono_ms())

    def append_as_follower(self, batches: memoryview) -> None:
        """Append what the leader sent, offsets and epochs as they are; a cut-off last batch is left out."""
        now_ms = self.clock.wall_ms()
        for header, batch in iter_batches(batches):
            check_crc(batch, header)
            if header.base_offset < self.log_end_offset:
                raise OffsetOutOfRange(
                    f"the leader sent offset {header.base_offset}, the log ends at {self.log_end_offset}"
                )
            self._write(batch, header.last_offset, header.max_timestamp, now_ms)
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._update_producer(header, batch, header.last_offset)

    def _write(self, batch: memoryview, last_offset: int, timestamp: int, now_ms: int) -> None:
        if self.is_closed or self.storage.offline_reason is not None:
            self._check_writable()
        segment, rule = self._segments.active, self._roll_rule
        try:
            if (
                timestamp > rule.after_ms
                or last_offset > rule.after_offset
                or segment.size_bytes + len(batch) > self._config.segment_bytes
            ) and rule.is_due(segment, len(batch), last_offset, timestamp, now_ms):
                segment = self._roll(now_ms)
            segment.append_stamped(batch, last_offset, timestamp)
        except OSError as error:
            raise self._append_failed(error) from error
        self.log_end_offset = last_offset + 1

    def _append_failed(self, error: OSError) -> KafkaStorageError:
        what = f"appending to {self.path}"
        if isinstance(error, TornAppend):
            self.storage.take_offline(f"{what}: {error}")
        return self.storage.append_failed(what, error)

    def _update_producer(
        self, header: BatchHeader, batch: memoryview, last_offset: int, marker: Marker | None = None
    ) -> None:
        if self._refused:
            self._refused.forget(header.producer_id)
        if header.attributes & TRANSACTIONAL_BIT:
            self.verifications.clear(header.producer_id)
        if not header.is_control:
            self.producers.update(header, last_offset, header.max_timestamp)
            return
        marker = marker or decode_marker(header, batch)
        if marker is None:
            return
        ended = self.producers.end_transaction(marker, last_offset, header.max_timestamp)
        if ended is not None and not ended.is_commit:
            try:
                self.active.note_aborted(aborted_of(ended, self.producers))
            except OSError as error:
                # It counts already, and is written with the next one, or after a crash from the log.
                self.storage.write_failed(f"indexing an aborted transaction of {self.path}", error)

    # Reading
    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool = True) -> LogRead:
        """Return whole batches from the one that contains `offset` up to `end_offset`; see `read_batches`."""
        log_end = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end:
            raise OffsetOutOfRange(f"offset {offset} is outside of {self.log_start_offset} to {log_end}")
        if end_offset > log_end:
            end_offset = log_end
        if offset >= end_offset:
            return LogRead(b"", offset)
        try:
            return log_lookup.read_batches(self._segments, offset, max_bytes, end_offset, at_least_one)
        except OSError as error:
            raise KafkaStorageError(f"reading {self.path}: {error}") from error

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in [offset, end_offset), by their first offsets."""
        return self._read(lambda: aborted_between(self._segments, offset, end_offset))

    def time_lookup(self, timestamp_ms: int) -> time_search.Find:
        """Return what finds the first record that is as late as `timestamp_ms`; to be called in a thread."""
        return self._lookup(
            lambda: time_search.first_at_or_after(self._segments, timestamp_ms, self.log_start_offset)
        )

    def max_time_lookup(self) -> time_search.Find:
        """Return what finds the first record with the largest timestamp of all; to be called in a thread."""
        return self._lookup(lambda: time_search.latest(self._segments, self.log_start_offset))

    def _lookup(self, begin: Callable[[], time_search.Find]) -> time_search.Find:
        find = self._read(begin)
        return lambda: self._read(find)

    def _read(self, how: Callable[[], T]) -> T:
        try:
            return how()
        except OSError as error:
            raise KafkaStorageError(f"reading {self.path}: {error}") from error

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record that is as late as `timestamp_ms`, or None; see `time_lookup`."""
        return self.time_lookup(timestamp_ms)()

    def time_from(self, offset: int, end_offset: int) -> int | None:
        """Return the timestamp of the first record at or after `offset`, below `end_offset`; None without."""
        start = max(offset, self.log_start_offset)
        return self._read(lambda: time_search.time_from(self._segments, start, end_offset))

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp of all, or None; see `max_time_lookup`."""
        return self.max_time_lookup()()

    def epoch_for_offset(self, offset: int) -> int:
        """Return the leader epoch that `offset` was written in, -1 if that is not known."""
        return self.epochs.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (the largest epoch <= `epoch`, the offset where it ends); (-1, -1) if not known."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)
