"""Putting a partition's files in order before its log is opened.

After a crash only what is past the recovery point is examined: below it everything was fsynced.

What is found                              what is done
half an append, or zeros, at the very end  cut off: it was never acknowledged as flushed
a batch that fails its checksum, bytes     taken out, and kept in `<base offset>.log.<position>.quarantine`;
 that are no batch, offsets that go back     an error names the file and the place; every batch that is
                                             intact stays, at its offset, whatever is before it
an index that is missing or wrong          rebuilt (also later, when a lookup finds it so)
an empty segment                           removed, unless it is the last one and the log ends there
.cleaned .deleted .tmp files               removed
.swap files                                the swap is completed
lost pages, with flush.messages=1          the log is cut off there, and what follows is kept in .quarantine
damage of any kind, where other brokers    the same: what follows is fetched again, and a replica with a hole
 have the partition, too                     in it never becomes the leader of those without

With flush.messages=1 nothing is acknowledged before all that is before it is on the disk. So where a power
cut lost a page, nobody has an answer for what comes after it, and producers will send it again, in
order: a later batch that happened to survive would make the broker refuse the earlier ones. Otherwise
batches are acknowledged before they are flushed, and later ones that are intact stay. So they do, with
either setting, where bits have flipped: recovery points are checkpointed only now and then, so that batch
and those after it may well have been acknowledged.

(Kafka cuts every log off at the first bad batch and deletes the segments after it. That is right when a
leader has the rest, and loses records when nobody has.)

After a clean stop nothing is examined. Damage done since then is met by reads: a batch with a wrong
checksum is for its reader to refuse, and a read that has to pass a header that makes no sense fails
with CorruptMessage. To have a log examined from the beginning, remove .kafka_cleanshutdown and
recovery-point-offset-checkpoint before the start.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.log.disk import Disk, OpenFile
from ottla.log.file_names import CLEANED, LOG, QUARANTINE
from ottla.log.loading.scan import BadRange, Expected, Scan, has_lost_page, is_torn_append, scan
from ottla.log.log_config import LONG_MAX
from ottla.log.log_types import Hole
from ottla.log.segment import Segment

# Keeping, under names that are never opened, what had to be taken out of a log: for a human to look at.

_COPY_BYTES = 1 << 20


def keep_range(disk: Disk, file: OpenFile, path: str, start: int, end: int) -> str:
    """Copy a part of a .log file; return the name of the copy, which is on the disk then."""
    kept = _free_name(disk, f"{path}.{start}")
    try:
        copy_ranges(disk, file, [(start, end)], kept)
    except OSError:
        disk.remove(kept)  # half a copy only takes the room that there is too little of
        raise
    return kept


def keep_segment(segment: Segment, mark: int) -> str:
    """Rename a whole .log file and remove its indexes; return the new name, which holds `mark`."""
    disk, path = segment.files.storage.disk, segment.files.path(LOG)
    kept = _free_name(disk, f"{path}.{mark}")
    segment.close()
    disk.rename(path, kept)
    segment.remove()
    return kept


def copy_ranges(disk: Disk, source: OpenFile, ranges: list[tuple[int, int]], path: str) -> None:
    """Write a new file of parts of another one, and fsync it."""
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
    """Return a name that no earlier find has."""
    name, number = stem + QUARANTINE, 1
    while disk.exists(name):
        number += 1
        name = f"{stem}.{number}{QUARANTINE}"
    return name


logger = logging.getLogger(__name__)


class Cuts(NamedTuple):
    """Where a log is cut off, instead of keeping what follows."""

    at_lost_pages: bool = False
    """Nothing was acknowledged before all that is before it was on the disk."""
    at_early_ends: bool = False
    """The same (or the next), and no compaction has made gaps between segments."""
    at_damage: bool = False
    """Other brokers have all that was here."""


KEEP_ALL = Cuts()


class Found(NamedTuple):
    """What is wrong with a log."""

    holes: list[Hole]
    """What is missing between batches that are intact."""
    is_damaged: bool
    """Whether there was more to repair than half an append at the very end."""


def recover(segments: list[Segment], recovery_point: int, cuts: Cuts = KEEP_ALL) -> Found:
    """Examine the segments past the recovery point, and repair them in place."""
    holes: list[Hole] = []
    end, is_damaged = -1, False
    limits = _limits(segments)
    for number, segment in enumerate(segments):
        if limits[number] < recovery_point:
            continue
        given = Expected(max(end, segment.base_offset), limits[number], recovery_point)
        found, is_cut, was_bad = _repair(segment, given, cuts, is_first=end < 0)
        holes += found
        if cuts.at_early_ends and end < 0 and not segment.size_bytes and segment is not segments[-1]:
            # The log had gone on from here, or there would be no other segment: all of it is lost.
            is_cut |= cuts.at_damage or segment.base_offset >= recovery_point
        is_damaged |= was_bad or is_cut
        if segment.size_bytes:
            if 0 <= end < segment.base_offset:
                path, last = segment.files.path(LOG), segment.base_offset - 1
                logger.warning("%s: before it, offsets %d to %d are missing", path, end, last)
                holes.append(Hole(end, segment.base_offset))
            end = segment.next_offset
        if is_cut:
            _cut_off_after(segments, number)
            break
    _drop_empty(segments)
    return Found(holes, is_damaged or bool(holes))


def _limits(segments: list[Segment]) -> list[int]:
    """Return where each segment must end at the latest: where the next one starts that is not empty.

    An empty one proves nothing: it is also what a roll leaves that failed, after which the old one went on.
    """
    limits, limit = [], LONG_MAX
    for segment in reversed(segments):
        limits.append(limit)
        if segment.size_bytes:
            limit = segment.base_offset
    return limits[::-1]


def _drop_empty(segments: list[Segment]) -> None:
    """Remove empty segments; the last one may stay if the log ends exactly where it starts."""
    for segment in segments[:-1]:
        if segment.size_bytes == 0:
            logger.warning("%s is empty and is removed", segment.files.path(LOG))
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
    segment: Segment, given: Expected, cuts: Cuts, *, is_first: bool
) -> tuple[list[Hole], bool, bool]:
    """Take what is bad out of one segment and bring its indexes up to date.

    Returns the holes inside it, whether the log has to end with it, and whether it was damaged.
    """
    file = segment.open_file()
    bad = _scan(segment, file, given).bad
    torn = bad[-1].start if bad and given.is_last and _is_torn(file, bad[-1]) else -1
    is_cut, is_damaged = False, any(gap.start != torn for gap in bad)
    if bad and cuts.at_damage:
        bad, is_cut = [bad[0]._replace(end=segment.size_bytes, resumed_offset=-1)], True
    elif cuts.at_lost_pages:
        bad, is_cut = _cut_at_lost_page(file, bad, segment.size_bytes, given.trusted_below)
    trusted_below, ends_well = given.trusted_below, True
    if bad:
        trusted_below = min(trusted_below, bad[0].expected_offset)
        _set_aside(segment, file, bad, torn)
        if bad[-1].resumed_offset < 0:
            tail = bad.pop()
            file.truncate(tail.start)
            file.fsync()  # it must not come back behind what is appended from now on
            segment.size_bytes, ends_well = tail.start, False
        if bad:
            _cut_out(segment, file, bad)
            trusted_below = segment.base_offset
    segment.recover_indexes(trusted_below)
    if cuts.at_early_ends and ends_well and (segment.size_bytes or is_first):
        is_cut = given.trusted_below <= segment.next_offset < given.end_offset < LONG_MAX
    return [Hole(gap.expected_offset, gap.resumed_offset) for gap in bad], is_cut, is_damaged


def _cut_at_lost_page(
    file: OpenFile, bad: list[BadRange], size: int, trusted_below: int
) -> tuple[list[BadRange], bool]:
    """Let the first bad range that a power cut left reach to the end; return whether there is one."""
    for number, gap in enumerate(bad):
        is_lost = _is_torn(file, gap) or has_lost_page(file, gap)
        if is_lost and gap.expected_offset >= trusted_below:
            return [*bad[:number], gap._replace(end=size, resumed_offset=-1)], True
    return bad, False


def _is_torn(file: OpenFile, gap: BadRange) -> bool:
    return gap.resumed_offset < 0 and is_torn_append(file, gap.start, gap.end)


def _cut_off_after(segments: list[Segment], number: int) -> None:
    """Let the log end with a segment; those after it are kept in quarantine, or removed if empty."""
    last = segments[number]
    for segment in reversed(segments[number + 1 :]):
        path = segment.files.path(LOG)
        if segment.size_bytes:
            logger.error(
                "%s comes after offset %d, where the log is cut off; moved to %s",
                path, last.next_offset, keep_segment(segment, 0),
            )  # fmt: skip
        else:
            segment.remove()
    del segments[number + 1 :]
    last.files.storage.disk.fsync_dir(last.files.directory)
    last.is_sealed = False
    last.recover_indexes(last.next_offset)


def _scan(segment: Segment, file: OpenFile, given: Expected) -> Scan:
    start = segment.trusted_position(given.trusted_below)
    found = scan(file, start, segment.size_bytes, given)
    if given.is_last and found.next_offset < given.trusted_below:
        # It ends before the point up to which it was fsynced: neither can be believed.
        logger.error(
            "%s ends at offset %d, before its recovery point %d: checking all of it",
            segment.files.path(LOG), found.next_offset, given.trusted_below,
        )  # fmt: skip
        found = scan(file, 0, segment.size_bytes, given._replace(trusted_below=0))
    return found


def _set_aside(segment: Segment, file: OpenFile, bad: list[BadRange], torn: int) -> None:
    """Copy the bad bytes to quarantine files, except what a crash in the middle of an append leaves."""
    path = segment.files.path(LOG)
    disk = segment.files.storage.disk
    for gap in bad:
        size = gap.end - gap.start
        if gap.start == torn:
            logger.info("%s: cutting off %d bytes of an unfinished append", path, size)
            continue
        logger.error(
            "%s: %d bytes at position %d cannot be read (records from offset %d on); moved to %s",
            path, size, gap.start, gap.expected_offset, keep_range(disk, file, path, gap.start, gap.end),
        )  # fmt: skip
    disk.fsync_dir(segment.files.directory)


def _cut_out(segment: Segment, file: OpenFile, bad: list[BadRange]) -> None:
    """Write the segment anew without the bad ranges."""
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
