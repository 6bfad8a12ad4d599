"""The producer snapshots in a partition's directory: written at every roll and at a clean stop."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from ottla.log.disk import DirEntry, Disk
from ottla.log.names import CORRUPT, SNAPSHOT, file_name, offset_of
from ottla.log.producer_snapshot import CorruptSnapshot
from ottla.log.producer_state import ProducerState

logger = logging.getLogger(__name__)


def snapshot_path(directory: str, offset: int) -> str:
    """Return the name of the snapshot of the state just before `offset`."""
    return f"{directory}/{file_name(offset, SNAPSHOT)}"


def snapshot_offsets(entries: Iterable[DirEntry]) -> list[int]:
    """Return the offsets of all snapshots among a directory's members, ascending."""
    found = (offset_of(entry.name, SNAPSHOT) for entry in entries)
    return sorted(offset for offset in found if offset is not None)


def load_newest(disk: Disk, directory: str, offsets: Iterable[int], limit: int, start: int) -> ProducerState:
    """Return the state of the newest readable snapshot at or below `limit`; an empty one at `start` if none.

    One that cannot be read is set aside: the one before it and more of the log give the same state.
    """
    for offset in sorted(offsets, reverse=True):
        if not start <= offset <= limit:
            continue
        path = snapshot_path(directory, offset)
        try:
            state = ProducerState.decode(disk.read_file(path), offset)
            state.snapshot_offset = offset
            return state
        except FileNotFoundError:
            continue
        except CorruptSnapshot as problem:
            logger.error(
                "%s cannot be read and is set aside as %s%s; the log has the producers' state too: %s",
                path, path, CORRUPT, problem,
            )  # fmt: skip
            disk.rename(path, path + CORRUPT)
    return ProducerState(start)


def remove_above(disk: Disk, directory: str, offsets: Iterable[int], limit: int) -> bool:
    """Remove the snapshots of states that the log no longer reaches; return whether there were any."""
    above = [offset for offset in offsets if offset > limit]
    for offset in above:
        disk.remove(snapshot_path(directory, offset))
    return bool(above)


def remove_below(disk: Disk, directory: str, limit: int) -> None:
    """Remove the snapshots of states from before `limit`, up to which the log is about to be compacted.

    They may show transactions open whose markers are gone then: whoever went on from there would wait
    for them for ever. The log itself, from its start, tells what is open.
    """
    for offset in snapshot_offsets(disk.list_dir(directory)):
        if offset < limit:
            disk.remove(snapshot_path(directory, offset))


def remove_stray(disk: Disk, directory: str, offsets: Iterable[int], bases: Collection[int]) -> None:
    """Remove the snapshots that belong to no segment, except the newest, which a clean stop left."""
    stray = sorted(offset for offset in offsets if offset not in bases)
    newest = max(offsets, default=-1)
    for offset in stray:
        if offset != newest:
            disk.remove(snapshot_path(directory, offset))
