"""State that follows from the batches of a log: the producers, and the leader epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.log import snapshots
from ottla.log.epoch_cache import EpochCache
from ottla.log.producer_state import ProducerState
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.protocol.record_batch import BatchHeader


def producers_at(segments: Segments, snapshot_offsets: Iterable[int], end_offset: int) -> ProducerState:
    """Return the producers' state at `end_offset`: the newest readable snapshot and the batches after it."""
    disk, directory, start = segments.storage.disk, segments.directory, segments.all[0].base_offset
    state = snapshots.load_newest(disk, directory, snapshot_offsets, end_offset, start)
    for segment, position, header in headers_from(segments, state.end_offset):
        batch = None
        if header.is_control:
            batch = memoryview(segment.open_file().read_at(position, header.size_bytes))
        state.replay(header, batch)
    state.end_offset = end_offset
    return state


def replay_epochs(segments: Segments, epochs: EpochCache, from_offset: int) -> None:
    """Bring the leader epochs up to date with the batches from `from_offset` on, which alone are believed."""
    epochs.truncate_from_end(from_offset)
    for _, _, header in headers_from(segments, from_offset):
        if header.leader_epoch > epochs.latest_epoch:
            epochs.assign(header.leader_epoch, header.base_offset)


def headers_from(segments: Segments, offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """Walk over (segment, position, header) of every batch that reaches `offset` or lies after it."""
    for segment in segments.all[segments.index_of(offset) :]:
        if segment.size_bytes:
            for position, header in segment.headers(segment.position_of(offset)):
                yield segment, position, header
