"""What a crash, or a clean-up that was not finished, left lying in a partition's directory."""

from __future__ import annotations

import logging

from ottla.log.batch_walk import walk_headers
from ottla.log.disk import DirEntry, Disk
from ottla.log.names import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    SEGMENT_KINDS,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    offset_of,
)
from ottla.protocol.errors import CorruptMessage

logger = logging.getLogger(__name__)

_UNFINISHED = (CLEANED, DELETED, TEMPORARY)


def tidy(disk: Disk, directory: str) -> list[DirEntry]:
    """Complete swaps, remove what is unfinished or on its way out, and return what is there then."""
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
    """Return the index files that belong to no log file."""
    stray = set()
    for kind in (OFFSET_INDEX, TIME_INDEX, TXN_INDEX):
        for name in names:
            base = offset_of(name, kind)
            if base is not None and not {file_name(base, LOG), file_name(base, LOG + SWAP)} & names:
                stray.add(name)
    return stray


def _complete_swaps(disk: Disk, directory: str, names: set[str], swaps: list[int]) -> None:
    """Let .swap segments take the place of everything from the first one's start to the last one's end."""
    end = max(_end_offset(disk, f"{directory}/{file_name(base, LOG)}{SWAP}", base) for base in swaps)
    for name in sorted(names):
        base = offset_of(name, LOG)
        if base is not None and min(swaps) <= base < end:
            logger.info("%s/%s was replaced by a compacted segment and is removed", directory, name)
            kinds = [LOG] if base in swaps else SEGMENT_KINDS
            for kind in kinds:
                disk.remove(f"{directory}/{file_name(base, kind)}")
    for base in sorted(swaps):
        for kind in reversed(SEGMENT_KINDS):
            name = file_name(base, kind)
            if name + SWAP in names:
                disk.rename(f"{directory}/{name}{SWAP}", f"{directory}/{name}")


def _end_offset(disk: Disk, path: str, base_offset: int) -> int:
    """Return where a segment's offsets end; what cannot be read of it is for recovery to deal with."""
    file = disk.open_read(path)
    end = base_offset + 1
    try:
        for _, header in walk_headers(file, 0, file.size()):
            end = header.next_offset
    except CorruptMessage as problem:
        logger.error("%s: %s", path, problem)
    return end
