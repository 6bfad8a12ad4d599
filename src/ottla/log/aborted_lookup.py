"""Searching a log for aborted transactions, by the indexes of its segments."""

from __future__ import annotations

import logging
from operator import attrgetter

from ottla.log import snapshots
from ottla.log.replay import rebuild_txn_indexes
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.sparse_index import CorruptIndex
from ottla.log.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)

_first_offset = attrgetter("first_offset")


def aborted_between(segments: Segments, offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in [offset, end_offset), by their first offsets.

    A transaction is in the index of the segment that has its marker, which may be a later one.
    """
    found: list[AbortedTransaction] = []
    for segment in segments.all[segments.index_of(offset) :]:
        if segment.txn_index is not None:
            some, is_last = _collect(segments, segment, offset, end_offset)
            found += some
            if is_last:
                break
    found.sort(key=_first_offset)
    return found


def _collect(
    segments: Segments, segment: Segment, offset: int, end_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Search one index; if it proves wrong, it is built anew first: aborted records must not be shown."""
    assert segment.txn_index is not None
    try:
        return segment.txn_index.collect(offset, end_offset)
    except (CorruptIndex, FileNotFoundError) as problem:
        logger.warning("%s: building its index of aborted transactions anew: %s", segments.directory, problem)
    offsets = snapshots.snapshot_offsets(segments.storage.disk.list_dir(segments.directory))
    rebuild_txn_indexes(segments, offsets, [segment])
    return segment.txn_index.collect(offset, end_offset)
