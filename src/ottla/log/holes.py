"""The holes of a log: offsets that recovery removed between intact batches.

File `ottla-holes-checkpoint` in the partition's directory, text:

    0                 version
    1                 number of lines that follow
    17 23             first offset of the hole, first offset after it

A replica with a hole copies from there on before it joins the ISR (replication/follower.py). The file lets it
know of the hole after another start, also a clean one, which does not read the batches. It exists only while
there are holes: a truncation at a hole removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.log.checkpoints import decode_lines, encode_lines, read_or_rename_corrupt, write_atomically
from ottla.log.disk import DirEntry, Disk
from ottla.log.file_names import HOLES
from ottla.log.log_types import UnreadableRange


def load_holes(
    disk: Disk,
    directory: str,
    entries: Iterable[DirEntry],
    found: Sequence[UnreadableRange],
    offsets: range,
) -> tuple[UnreadableRange, ...]:
    """Return the stored holes and those that recovery has just found, in order; store them together.

    `offsets` are those of the log.
    """
    is_stored = any(entry.name == HOLES for entry in entries)
    if not (found or is_stored):
        return ()
    stored = read_or_rename_corrupt(disk, f"{directory}/{HOLES}", _decode) or ()
    holes = remaining_holes(sorted({*stored, *found}), offsets)
    if holes != stored:
        save_holes(disk, directory, holes)
        disk.fsync_dir(directory)
    return holes


def save_holes(disk: Disk, directory: str, holes: Sequence[UnreadableRange]) -> None:
    """Store the holes, or remove the file if there are none; the caller syncs the directory."""
    path = f"{directory}/{HOLES}"
    if holes:
        write_atomically(disk, path, encode_lines(f"{first} {after}" for first, after in holes))
    else:
        disk.remove(path)


def remaining_holes(holes: Iterable[UnreadableRange], offsets: range) -> tuple[UnreadableRange, ...]:
    """Return the holes that a batch of the log follows; `offsets` are those of the log."""
    return tuple(each for each in holes if offsets.start < each.next_offset < offsets.stop)


def _decode(data: bytes) -> tuple[UnreadableRange, ...]:
    holes = []
    for line in decode_lines(data):
        first, after = map(int, line.split(" "))
        if not 0 <= first < after:
            raise ValueError(f"{first} to {after} is no range of offsets")
        holes.append(UnreadableRange(first, after))
    return tuple(holes)
