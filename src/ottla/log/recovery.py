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

(Kafka cuts a log off at the first bad batch and deletes the segments after it. That is right when a
leader has the rest, and loses records when nobody has: here the hole is reported in `Log.holes`, and
a follower can still truncate to it and fetch the rest again.)

After a clean stop nothing is examined. Damage done since then is met by reads: a batch with a wrong
checksum is for its reader to refuse, and a read that has to pass a header that makes no sense fails
with CorruptMessage. To have a log examined from the beginning, remove .kafka_cleanshutdown and
recovery-point-offset-checkpoint before the start.
"""

from __future__ import annotations

import logging

from ottla.log.disk import Disk, OpenFile
from ottla.log.log_config import LONG_MAX
from ottla.log.log_types import Hole
from ottla.log.names import CLEANED, LOG, QUARANTINE
from ottla.log.scan import BadRange, Expected, Scan, is_torn_append, scan
from ottla.log.segment import Segment

logger = logging.getLogger(__name__)

_COPY_BYTES = 1 << 20


def recover(segments: list[Segment], recovery_point: int) -> list[Hole]:
    """Examine the segments past the recovery point, repair them in place, and return the holes left."""
    holes: list[Hole] = []
    end = -1
    for segment, limit in zip(segments, _limits(segments), strict=True):
        if limit < recovery_point:
            continue
        holes += _repair(segment, Expected(max(end, segment.base_offset), limit, recovery_point))
        if segment.size_bytes:
            if 0 <= end < segment.base_offset:
                path, last = segment.files.path(LOG), segment.base_offset - 1
                logger.warning("%s: before it, offsets %d to %d are missing", path, end, last)
                holes.append(Hole(end, segment.base_offset))
            end = segment.next_offset
    _drop_empty(segments)
    return holes


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


def _repair(segment: Segment, given: Expected) -> list[Hole]:
    """Take what is bad out of one segment and bring its indexes up to date; return the holes inside it."""
    file = segment.open_file()
    is_last = given.end_offset == LONG_MAX
    bad = _scan(segment, file, given, is_last).bad
    trusted_below = given.trusted_below
    if bad:
        trusted_below = min(trusted_below, bad[0].expected_offset)
        _set_aside(segment, file, bad, is_last)
        if bad[-1].resumed_offset < 0:
            tail = bad.pop()
            file.truncate(tail.start)
            file.fsync()  # it must not come back behind what is appended from now on
            segment.size_bytes = tail.start
        if bad:
            _cut_out(segment, file, bad)
            trusted_below = segment.base_offset
    segment.recover_indexes(trusted_below)
    return [Hole(gap.expected_offset, gap.resumed_offset) for gap in bad]


def _scan(segment: Segment, file: OpenFile, given: Expected, is_last: bool) -> Scan:
    start = segment.trusted_position(given.trusted_below)
    found = scan(file, start, segment.size_bytes, given)
    if is_last and found.next_offset < given.trusted_below:
        # It ends before the point up to which it was fsynced: neither can be believed.
        logger.error(
            "%s ends at offset %d, before its recovery point %d: checking all of it",
            segment.files.path(LOG), found.next_offset, given.trusted_below,
        )  # fmt: skip
        found = scan(file, 0, segment.size_bytes, given._replace(trusted_below=0))
    return found


def _set_aside(segment: Segment, file: OpenFile, bad: list[BadRange], is_last: bool) -> None:
    """Copy the bad bytes to quarantine files, except what a crash in the middle of an append leaves."""
    path = segment.files.path(LOG)
    disk = segment.files.storage.disk
    for gap in bad:
        size = gap.end - gap.start
        if is_last and gap.resumed_offset < 0 and is_torn_append(file, gap.start, gap.end):
            logger.info("%s: cutting off %d bytes of an unfinished append", path, size)
            continue
        kept = f"{path}.{gap.start}{QUARANTINE}"
        logger.error(
            "%s: %d bytes at position %d cannot be read (records from offset %d on); moved to %s",
            path, size, gap.start, gap.expected_offset, kept,
        )  # fmt: skip
        _copy(disk, file, [(gap.start, gap.end)], kept)


def _cut_out(segment: Segment, file: OpenFile, bad: list[BadRange]) -> None:
    """Write the segment anew without the bad ranges."""
    path = segment.files.path(LOG)
    disk = segment.files.storage.disk
    good, start = [], 0
    for gap in bad:
        good.append((start, gap.start))
        start = gap.end
    good.append((start, segment.size_bytes))
    _copy(disk, file, good, path + CLEANED)
    segment.files.close()
    disk.rename(path + CLEANED, path)
    disk.fsync_dir(segment.files.directory)
    segment.size_bytes = sum(end - start for start, end in good)


def _copy(disk: Disk, source: OpenFile, ranges: list[tuple[int, int]], path: str) -> None:
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
