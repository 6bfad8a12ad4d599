"""Whether the machine has gone on running since a directory was last written to.

A process that is killed loses nothing that it wrote: the kernel has it. A machine that loses power loses
what was not fsynced. Afterwards the two look alike, but the kernel has an id for every time it was started,
and one for every mount: they are noted in the file `.boot`, and if they are the same, nothing is lost.

After a failed write or fsync nobody knows what the kernel still has, so the note is taken back.
"""

from __future__ import annotations

import logging

from ottla.log.disk import Disk

logger = logging.getLogger(__name__)

BOOT = ".boot"


def is_same_boot(disk: Disk, directory: str) -> bool:
    """Return whether the machine runs since `note_boot` was last called; False if that is not known."""
    try:
        noted = disk.read_file(f"{directory}/{BOOT}").decode(errors="replace")
    except FileNotFoundError:
        return False
    return bool(noted) and noted == disk.boot_id(directory)


def note_boot(disk: Disk, directory: str) -> None:
    """Note that the machine runs; a power cut may take the note, and is noticed then, too."""
    disk.write_file(f"{directory}/{BOOT}", disk.boot_id(directory).encode(), sync=False)


def forget_boot(disk: Disk, directory: str) -> None:
    """Let the next start take it that records are lost."""
    try:
        disk.remove(f"{directory}/{BOOT}")
    except OSError as error:
        logger.error("%s/%s cannot be removed: %s", directory, BOOT, error)
