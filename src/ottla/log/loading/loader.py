"""Open a log from its directory.

First, leftovers of a crash or of an unfinished compaction are removed, or the swap is completed. After a
clean shutdown there is no scan: only the tail of the last segment is read to find the log's end. After a
crash, see recovery.py. In both cases producer state and leader epochs come from their files as far as those
go, and from the batches after that.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.log import transaction_index
from ottla.log.batch_walk import walk_headers
from ottla.log.checkpoints import (
    LOG_STARTS,
    decode_partition_metadata,
    encode_partition_metadata,
    read_or_rename_corrupt,
)
from ottla.log.disk import DirEntry, Disk
from ottla.log.epoch_cache import EpochCache
from ottla.log.file_names import (
    CLEANED,
    DELETED,
    EPOCH_CHECKPOINT,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SEGMENT_KINDS,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    offset_of,
)
from ottla.log.holes import load_holes
from ottla.log.indexes import OffsetIndex, TimeIndex
from ottla.log.loading.recovery import TruncationPolicy, quarantine_segment, recover
from ottla.log.loading.replay import producers_at, rebuild_txn_indexes, replay_epochs
from ottla.log.log import Log
from ottla.log.log_config import LogConfig
from ottla.log.log_types import UnreadableRange
from ottla.log.producers import producer_state
from ottla.log.segment import Segment, SegmentFiles
from ottla.log.segments import Segments
from ottla.log.storage import Storage
from ottla.protocol.errors import CorruptMessage

logger = logging.getLogger(__name__)

_UNFINISHED = (CLEANED, DELETED, TEMPORARY)


def remove_leftovers(disk: Disk, directory: str) -> list[DirEntry]:
    """Complete swaps, remove unfinished and deleted files, and return the remaining directory entries."""
    entries = disk.list_dir(directory)
    names = {entry.name for entry in entries}
    stray = _stray_indexes(names)
    if not stray and not any(name.endswith((*_UNFINISHED, SWAP)) for name in names):
        return entries
    swaps = [base for name in names if (base := offset_of(name, LOG + SWAP)) is not None]
    if swaps:
        _complete_swaps(disk, directory, names, swaps)
    for name in names:
        if name.endswith((*_UNFINISHED, SWAP)) or name in stray:
            disk.remove(f"{directory}/{name}")
    disk.fsync_dir(directory)
    return disk.list_dir(directory)


def _stray_indexes(names: set[str]) -> set[str]:
    """Return the index files that have no log file."""
    stray = set()
    for kind in (OFFSET_INDEX, TIME_INDEX, TXN_INDEX):
        for name in names:
            base = offset_of(name, kind)
            if base is not None and not {file_name(base, LOG), file_name(base, LOG + SWAP)} & names:
                stray.add(name)
    return stray


def _complete_swaps(disk: Disk, directory: str, names: set[str], swaps: list[int]) -> None:
    """Replace all segments from the first .swap segment's start to the last one's end."""
    end = max(_end_offset(disk, f"{directory}/{file_name(base, LOG)}{SWAP}", base) for base in swaps)
    for name in sorted(names):
        base = offset_of(name, LOG)
        if base is not None and min(swaps) <= base < end:
            logger.info("removing %s/%s, which was replaced by a compacted segment", directory, name)
            kinds = [LOG] if base in swaps else SEGMENT_KINDS
            for kind in kinds:
                disk.remove(f"{directory}/{file_name(base, kind)}")
    for base in sorted(swaps):
        for kind in reversed(SEGMENT_KINDS):
            name = file_name(base, kind)
            if name + SWAP in names:
                disk.rename(f"{directory}/{name}{SWAP}", f"{directory}/{name}")


def _end_offset(disk: Disk, path: str, base_offset: int) -> int:
    """Return where a segment's offsets end; recovery handles what cannot be read of it."""
    file = disk.open_read(path)
    end = base_offset + 1
    try:
        for _, header in walk_headers(file, 0, file.size()):
            end = header.next_offset
    except CorruptMessage as problem:
        logger.error("%s: %s", path, problem)
    return end


def create_log(
    storage: Storage,
    directory: str,
    topic_partition: TopicPartition,
    topic_id: UUID | None,
    config: LogConfig,
    clock: Clock,
) -> Log:
    """Create the directory of a new, empty log."""
    disk = storage.disk
    disk.make_dir(directory)
    if topic_id is not None:
        disk.write_file(f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(topic_id), sync=False)
    segment = Segment.create(storage, directory, 0, config, now_ms=clock.wall_ms())
    return Log(topic_partition, topic_id, config, Segments(storage, directory, [segment]), clock)


def open_log(
    storage: Storage,
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    clock: Clock,
    *,
    is_clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    is_replicated: bool = False,
) -> Log:
    """Open the log in `directory`; never raises CorruptMessage, but may raise OSError.

    `is_replicated` says that other brokers have a copy of the partition.
    """
    disk = storage.disk
    entries = remove_leftovers(disk, directory)
    found = _find_segments(storage, directory, entries, config, clock.wall_ms())
    if is_clean and found:
        is_clean = _load_tail(found)
        recovery_point = found[-1].base_offset
    _rebuild_missing_indexes(found, entries)
    holes: list[UnreadableRange] = []
    is_damaged = False
    if not is_clean:
        is_flushed_first = config.flush_messages == 1
        at_early_ends = (is_flushed_first or is_replicated) and not config.is_compacted
        holes, is_damaged = recover(
            found, recovery_point, TruncationPolicy(is_flushed_first, at_early_ends, is_replicated)
        )
    if found and log_start_offset > found[-1].next_offset:
        _quarantine(found, log_start_offset)
    segments = Segments(storage, directory, found)
    if not found:
        segments.start_new(log_start_offset, config, clock.wall_ms())
    log_start_offset = max(log_start_offset, segments.all[0].base_offset)
    end = segments.active.next_offset
    epochs = _load_epochs(segments, log_start_offset, end if is_clean else min(recovery_point, end))
    offsets = producer_state.snapshot_offsets(entries)
    if not is_clean:
        offsets = _trusted_snapshots(segments, offsets, min([end, *(hole.first_offset for hole in holes)]))
    producer_state.remove_stray_snapshots(
        disk, directory, offsets, {segment.base_offset for segment in found}
    )
    if is_clean:
        _repair_txn_indexes(segments, entries, offsets)
    else:
        # Those of segments that end before the recovery point were fsynced after they were sealed.
        damaged_from = min([recovery_point, *(hole.first_offset for hole in holes)])
        wrong = segments.all[segments.index_of(max(damaged_from - 1, 0)) :]
        rebuild_txn_indexes(segments, offsets, wrong)
    producers = producers_at(segments, offsets, end)
    topic_id = read_or_rename_corrupt(disk, f"{directory}/{PARTITION_METADATA}", decode_partition_metadata)
    segments.close()
    return Log(
        topic_partition,
        topic_id,
        config,
        segments,
        clock,
        log_start_offset=log_start_offset,
        recovery_point=end if is_clean else min(recovery_point, end),
        producers=producers,
        epochs=epochs,
        holes=load_holes(disk, directory, entries, holes, range(log_start_offset, end)),
        is_damaged=is_damaged,
    )


def _find_segments(
    storage: Storage, directory: str, entries: Sequence[DirEntry], config: LogConfig, now_ms: int
) -> list[Segment]:
    sizes = _sizes(entries, LOG)
    txn_sizes = _sizes(entries, TXN_INDEX)
    bases = sorted(sizes)
    return [
        Segment(
            SegmentFiles(storage, directory, base),
            config.index_interval_bytes,
            size_bytes=sizes[base],
            created_ms=now_ms,
            is_sealed=base != bases[-1],
            txn_index_bytes=txn_sizes.get(base, 0),
        )
        for base in bases
    ]


def _sizes(entries: Sequence[DirEntry], kind: str) -> dict[int, int]:
    """Return the sizes of all files of a kind, by the offset in their names."""
    return {base: entry.size_bytes for entry in entries if (base := offset_of(entry.name, kind)) is not None}


def _load_tail(segments: Sequence[Segment]) -> bool:
    """Find the end of a log after a clean shutdown; False if its files contradict that."""
    active = segments[-1]
    try:
        active.load()
        for segment in segments[:-1]:
            if segment.size_bytes == 0:
                raise CorruptMessage(f"{segment.files.path(LOG)} is empty")
        if len(segments) > 1 and active.size_bytes == 0 and segments[-2].next_offset != active.base_offset:
            raise CorruptMessage(f"the log ends at offset {segments[-2].next_offset}")
    except CorruptMessage as problem:
        logger.error("%s was shut down cleanly but is damaged: %s", active.files.path(LOG), problem)
        return False
    return True


def _trusted_snapshots(segments: Segments, offsets: Sequence[int], limit: int) -> list[int]:
    """Remove the snapshots above `limit`, and return the offsets of the others.

    They were written when batches existed that are gone now: a producer that resends one of those must not
    get a duplicate's response.
    """
    disk, directory = segments.storage.disk, segments.directory
    if producer_state.remove_snapshots_above(disk, directory, offsets, limit):
        disk.fsync_dir(directory)
    return [offset for offset in offsets if offset <= limit]


def _quarantine(segments: list[Segment], log_start_offset: int) -> None:
    """Rename segments that end before the log start offset, so that they are never opened.

    This happens after a power failure that followed DeleteRecords, if the deleted records had not been
    flushed. It also happens if a bit flips in the checkpoint, which has no checksum: therefore nothing is
    deleted.
    """
    for segment in segments:
        path = segment.files.path(LOG)
        logger.error(
            "%s ends before the log start offset %d of %s; moved to %s",
            path, log_start_offset, LOG_STARTS, quarantine_segment(segment, log_start_offset),
        )  # fmt: skip
    segments.clear()


def _rebuild_missing_indexes(segments: Sequence[Segment], entries: Sequence[DirEntry]) -> None:
    """Rebuild the indexes of sealed segments that are missing or have a partial entry."""
    sizes = {entry.name: entry.size_bytes for entry in entries}
    for segment in segments[:-1]:
        for kind, entry_bytes in ((OFFSET_INDEX, OffsetIndex.ENTRY.size), (TIME_INDEX, TimeIndex.ENTRY.size)):
            name = file_name(segment.base_offset, kind)
            size = sizes.get(name)
            if size is None or size % entry_bytes:
                try:
                    segment.rebuild_indexes(
                        f"{name} is missing" if size is None else f"{name} has {size} bytes"
                    )
                except CorruptMessage as problem:
                    logger.error("%s: %s", segment.files.path(LOG), problem)
                break


def _repair_txn_indexes(
    segments: Segments, entries: Sequence[DirEntry], snapshot_offsets: Sequence[int]
) -> None:
    """Rebuild transaction indexes that have a partial entry."""
    for base, size in _sizes(entries, TXN_INDEX).items():
        if size % transaction_index.ENTRY.size:
            logger.warning("rebuilding %s: its size of %d bytes is invalid", file_name(base, TXN_INDEX), size)
            wrong = segments.all[segments.index_of(base)]
            rebuild_txn_indexes(segments, snapshot_offsets, [wrong])


def _load_epochs(segments: Segments, log_start_offset: int, trusted_below: int) -> EpochCache:
    """Return the leader epochs: from the file up to `trusted_below`, from the batches after that."""
    path = f"{segments.directory}/{EPOCH_CHECKPOINT}"
    epochs = read_or_rename_corrupt(segments.storage.disk, path, EpochCache.decode)
    first = next((segment for segment in segments.all if segment.size_bytes), None)
    if epochs is None:
        epochs = EpochCache()
        if first is not None and first.header_at(0).leader_epoch >= 0:
            trusted_below = log_start_offset
    replay_epochs(segments, epochs, trusted_below)
    epochs.truncate_from_start(log_start_offset)
    return epochs
