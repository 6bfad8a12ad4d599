"""Recover a partition's segments after a crash, before its log is opened.

Only what is above the recovery point is examined: everything below it was fsynced.

    found                                      action
    a partial append, or zeros, at the end     truncated: it was never acknowledged as flushed
    a batch with a wrong checksum, bytes that  removed; copied to `<base offset>.log.<position>.quarantine`;
     are no batch, offsets that go back          an error is logged; every intact batch stays at its offset
    an index that is missing or wrong          rebuilt (also later, when a lookup notices)
    an empty segment                           removed, unless it is the last one and the log ends there
    .cleaned .deleted .tmp files               removed
    .swap files                                the swap is completed
    lost pages, with flush.messages=1          the log is truncated there; what follows is quarantined
    any damage, if other brokers have copies   the same: the follower fetches it again, and a replica with a
                                                 hole in its log never becomes the leader

With flush.messages=1 nothing is acknowledged before everything in front of it is on disk. So if a power
failure lost a page, nothing after it was acknowledged, and producers will resend it in order: a later batch
that happened to survive would make the broker reject the earlier ones. Without it, batches are acknowledged
before they are flushed, and later intact ones are kept. After bit flips they are kept with either setting:
recovery points are checkpointed only at intervals, so that batch and later ones may have been acknowledged.

(Kafka truncates every log at the first bad batch and deletes the segments after it. That is right if a leader
has the rest, and loses records if no replica has.)

After a clean shutdown nothing is examined. Damage that happened since is found by reads: the consumer rejects
a batch with a wrong checksum, and a read that has to pass an invalid header fails with CorruptMessage. To
force a full examination, remove .kafka_cleanshutdown and recovery-point-offset-checkpoint before the start.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.log.disk import Disk, OpenFile
from ottla.log.file_names import CLEANED, LOG, QUARANTINE
from ottla.log.loading.scan import BadRange, Scan, ScanBounds, has_lost_page, is_torn_append, scan
from ottla.log.log_config import LONG_MAX
from ottla.log.log_types import UnreadableRange
from ottla.log.segment import Segment

logger = logging.getLogger(__name__)


_COPY_BYTES = 1 << 20


def quarantine_range(disk: Disk, file: OpenFile, path: str, start: int, end: int) -> str:
    """Copy a part of a .log file to a quarantine file and fsync it; return its name."""
    kept = _free_name(disk, f"{path}.{start}")
    try:
        copy_ranges(disk, file, [(start, end)], kept)
    except OSError:
        disk.remove(kept)  # a partial copy is useless, and the disk may be full
        raise
    return kept


def quarantine_segment(segment: Segment, mark: int) -> str:
    """Rename a whole .log file and remove its indexes; return the new name, which contains `mark`."""
    disk, path = segment.files.storage.disk, segment.files.path(LOG)
    kept = _free_name(disk, f"{path}.{mark}")
    segment.close()
    disk.rename(path, kept)
    segment.remove()
    return kept


def copy_ranges(disk: Disk, source: OpenFile, ranges: list[tuple[int, int]], path: str) -> None:
    """Write parts of a file into a new one, and fsync it."""
    target = disk.open(path, create=True)
    target.truncate(0)
    written = 0
    for start, end in ranges:
        while start < end:
            data = source.read_at(start, min(_COPY_BYTES, end - start))
            target.write_at(written, data)
            start += len(data)
            written += len(data)
    target.fsync()


def _free_name(disk: Disk, stem: str) -> str:
    """Return a quarantine file name that does not exist yet."""
    name, number = stem + QUARANTINE, 1
    while disk.exists(name):
        number += 1
        name = f"{stem}.{number}{QUARANTINE}"
    return name


class TruncationPolicy(NamedTuple):
    """Where a log is truncated instead of keeping intact batches after damage."""

    at_lost_pages: bool = False
    """Nothing was acknowledged before everything in front of it was on disk."""
    at_early_ends: bool = False
    """The same (or the next), and compaction has made no gaps between segments."""
    at_damage: bool = False
    """Other brokers have a copy of everything."""


KEEP_INTACT_BATCHES = TruncationPolicy()


class RecoveryResult(NamedTuple):
    """What recovery found."""

    holes: list[UnreadableRange]
    """Offsets that are missing between intact batches."""
    is_damaged: bool
    """Whether there was more to repair than a partial append at the end."""


def recover(
    segments: list[Segment], recovery_point: int, policy: TruncationPolicy = KEEP_INTACT_BATCHES
) -> RecoveryResult:
    """Examine the segments above the recovery point, and repair them in place."""
    holes: list[UnreadableRange] = []
    end, is_damaged = -1, False
    limits = _limits(segments)
    for number, segment in enumerate(segments):
        if limits[number] < recovery_point:
            continue
        bounds = ScanBounds(max(end, segment.base_offset), limits[number], recovery_point)
        found, is_cut, was_bad = _repair(segment, bounds, policy, is_first=end < 0)
        holes += found
        if policy.at_early_ends and end < 0 and not segment.size_bytes and segment is not segments[-1]:
            # The log continued here, or there would be no later segment: the whole segment is lost.
            is_cut |= policy.at_damage or segment.base_offset >= recovery_point
        is_damaged |= was_bad or is_cut
        if segment.size_bytes:
            if 0 <= end < segment.base_offset:
                path, last = segment.files.path(LOG), segment.base_offset - 1
                logger.warning("%s: offsets %d to %d are missing before this segment", path, end, last)
                holes.append(UnreadableRange(end, segment.base_offset))
            end = segment.next_offset
        if is_cut:
            _truncate_after(segments, number)
            break
    _remove_empty(segments)
    return RecoveryResult(holes, is_damaged or bool(holes))


def _limits(segments: list[Segment]) -> list[int]:
    """Return where each segment must end at the latest: where the next non-empty one starts.

    An empty segment proves nothing: a failed roll leaves one, after which the old segment was appended to.
    """
    limits, limit = [], LONG_MAX
    for segment in reversed(segments):
        limits.append(limit)
        if segment.size_bytes:
            limit = segment.base_offset
    return limits[::-1]


def _remove_empty(segments: list[Segment]) -> None:
    """Remove empty segments; the last one stays if the log ends exactly where it starts."""
    for segment in segments[:-1]:
        if segment.size_bytes == 0:
            logger.warning("%s is empty, removing it", segment.files.path(LOG))
            segment.remove()
    segments[:-1] = [segment for segment in segments[:-1] if segment.size_bytes]
    if len(segments) > 1 and segments[-1].size_bytes == 0:
        before, last = segments[-2:]
        if before.next_offset != last.base_offset:
            last.remove()
            segments.pop()
            before.is_sealed = False
            before.recover_indexes(before.next_offset)


def _repair(
    segment: Segment, bounds: ScanBounds, policy: TruncationPolicy, *, is_first: bool
) -> tuple[list[UnreadableRange], bool, bool]:
    """Remove the bad ranges of one segment and bring its indexes up to date.

    Returns the holes inside it, whether the log has to end with it, and whether it was damaged.
    """
    file = segment.open_file()
    bad = _scan(segment, file, bounds).bad
    torn = bad[-1].start if bad and bounds.is_last and _is_torn(file, bad[-1]) else -1
    is_cut, is_damaged = False, any(gap.start != torn for gap in bad)
    if bad and policy.at_damage:
        bad, is_cut = [bad[0]._replace(end=segment.size_bytes, resumed_offset=-1)], True
    elif policy.at_lost_pages:
        bad, is_cut = _truncate_at_lost_page(file, bad, segment.size_bytes, bounds.trusted_below)
    trusted_below, ends_well = bounds.trusted_below, True
    if bad:
        trusted_below = min(trusted_below, bad[0].expected_offset)
        _quarantine(segment, file, bad, torn)
        if bad[-1].resumed_offset < 0:
            tail = bad.pop()
            file.truncate(tail.start)
            file.fsync()  # it must not reappear after what is appended from now on
            segment.size_bytes, ends_well = tail.start, False
        if bad:
            _rewrite_without(segment, file, bad)
            trusted_below = segment.base_offset
    segment.recover_indexes(trusted_below)
    if policy.at_early_ends and ends_well and (segment.size_bytes or is_first):
        is_cut = bounds.trusted_below <= segment.next_offset < bounds.end_offset < LONG_MAX
    return [UnreadableRange(gap.expected_offset, gap.resumed_offset) for gap in bad], is_cut, is_damaged


def _truncate_at_lost_page(
    file: OpenFile, bad: list[BadRange], size: int, trusted_below: int
) -> tuple[list[BadRange], bool]:
    """Extend the first bad range that a power failure left to the end; return whether there is one."""
    for number, gap in enumerate(bad):
        is_lost = _is_torn(file, gap) or has_lost_page(file, gap)
        if is_lost and gap.expected_offset >= trusted_below:
            return [*bad[:number], gap._replace(end=size, resumed_offset=-1)], True
    return bad, False


def _is_torn(file: OpenFile, gap: BadRange) -> bool:
    return gap.resumed_offset < 0 and is_torn_append(file, gap.start, gap.end)


def _truncate_after(segments: list[Segment], number: int) -> None:
    """Make the log end with a segment; later ones are quarantined, or removed if they are empty."""
    last = segments[number]
    for segment in reversed(segments[number + 1 :]):
        path = segment.files.path(LOG)
        if segment.size_bytes:
            logger.error(
                "%s is after offset %d, where the log is truncated; moved to %s",
                path, last.next_offset, quarantine_segment(segment, 0),
            )  # fmt: skip
        else:
            segment.remove()
    del segments[number + 1 :]
    last.files.storage.disk.fsync_dir(last.files.directory)
    last.is_sealed = False
    last.recover_indexes(last.next_offset)


def _scan(segment: Segment, file: OpenFile, bounds: ScanBounds) -> Scan:
    start = segment.trusted_position(bounds.trusted_below)
    found = scan(file, start, segment.size_bytes, bounds)
    if bounds.is_last and found.next_offset < bounds.trusted_below:
        # It ends before the point up to which it was fsynced: neither can be trusted.
        logger.error(
            "%s ends at offset %d, before its recovery point %d: scanning the whole segment",
            segment.files.path(LOG), found.next_offset, bounds.trusted_below,
        )  # fmt: skip
        found = scan(file, 0, segment.size_bytes, bounds._replace(trusted_below=0))
    return found


def _quarantine(segment: Segment, file: OpenFile, bad: list[BadRange], torn: int) -> None:
    """Copy the bad bytes to quarantine files, except a partial append."""
    path = segment.files.path(LOG)
    disk = segment.files.storage.disk
    for gap in bad:
        size = gap.end - gap.start
        if gap.start == torn:
            logger.info("%s: truncating %d bytes of a partial append", path, size)
            continue
        kept = quarantine_range(disk, file, path, gap.start, gap.end)
        logger.error(
            "%s: removed %d unreadable bytes at position %d (records from offset %d on); kept in %s",
            path, size, gap.start, gap.expected_offset, kept,
        )  # fmt: skip
    disk.fsync_dir(segment.files.directory)


def _rewrite_without(segment: Segment, file: OpenFile, bad: list[BadRange]) -> None:
    """Rewrite the segment without the bad ranges."""
    path = segment.files.path(LOG)
    disk = segment.files.storage.disk
    good, start = [], 0
    for gap in bad:
        good.append((start, gap.start))
        start = gap.end
    good.append((start, segment.size_bytes))
    copy_ranges(disk, file, good, path + CLEANED)
    segment.files.close()
    disk.rename(path + CLEANED, path)
    disk.fsync_dir(segment.files.directory)
    segment.size_bytes = sum(end - start for start, end in good)
