"""Rebuild the state that follows from a log's batches: producers, aborted transactions and leader epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ottla.log.epoch_cache import EpochCache
from ottla.log.producers import producer_state
from ottla.log.producers.producer_state import EndedTransaction, ProducerState
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.records.batch import BatchHeader


def producers_at(segments: Segments, snapshot_offsets: Iterable[int], end_offset: int) -> ProducerState:
    """Return the producer state at `end_offset`: the newest readable snapshot and the batches after it."""
    disk, directory, start = segments.storage.disk, segments.directory, segments.all[0].base_offset
    state = producer_state.load_newest_snapshot(disk, directory, snapshot_offsets, end_offset, start)
    for segment, position, header in headers_from(segments, state.end_offset):
        if header.base_offset >= end_offset:
            break
        state.replay(header, _control_batch(segment, position, header))
    state.end_offset = end_offset
    return state


def rebuild_txn_indexes(
    segments: Segments, snapshot_offsets: Iterable[int], wrong: Sequence[Segment]
) -> None:
    """Rebuild the transaction indexes of some consecutive segments.

    Their transactions may have begun in earlier segments: those are in the producer state at the first one's
    start.
    """
    state = producers_at(segments, snapshot_offsets, wrong[0].base_offset)
    end_offset = wrong[-1].next_offset
    for segment in wrong:
        if segment.txn_index is not None:
            segment.txn_index.clear()
    for segment, position, header in headers_from(segments, state.end_offset):
        if header.base_offset >= end_offset:
            break
        ended = state.replay(header, _control_batch(segment, position, header))
        if ended is not None and not ended.is_commit:
            segment.append_aborted(aborted_entry(ended, state))
    for segment in wrong:
        if segment.txn_index is not None:
            segment.txn_index.write_pending()


def aborted_entry(ended: EndedTransaction, state: ProducerState) -> AbortedTransaction:
    """Return the index entry of a transaction that has just been aborted."""
    still_open = state.first_open_offset()
    stable = ended.marker_offset + 1 if still_open is None else still_open
    return AbortedTransaction(ended.producer_id, ended.first_offset, ended.marker_offset, stable)


def _control_batch(segment: Segment, position: int, header: BatchHeader) -> memoryview | None:
    if not header.is_control:
        return None
    return memoryview(segment.open_file().read_at(position, header.size_bytes))


def replay_epochs(segments: Segments, epochs: EpochCache, from_offset: int) -> None:
    """Update the leader epochs from the batches at and after `from_offset`."""
    epochs.truncate_from_end(from_offset)
    for _, _, header in headers_from(segments, from_offset):
        if header.leader_epoch > epochs.latest_epoch:
            epochs.assign(header.leader_epoch, header.base_offset)


def headers_from(segments: Segments, offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """Yield (segment, position, header) of every batch that contains `offset` or follows it."""
    for segment in segments.all[segments.index_of(offset) :]:
        if segment.size_bytes:
            for position, header in segment.headers(segment.position_of(offset)):
                yield segment, position, header
