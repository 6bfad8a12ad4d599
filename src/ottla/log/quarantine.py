"""Keeping, under names that are never opened, what had to be taken out of a log: for a human to look at."""

from __future__ import annotations

from ottla.log.disk import Disk, OpenFile
from ottla.log.names import LOG, QUARANTINE
from ottla.log.segment import Segment

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
