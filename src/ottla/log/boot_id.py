"""Whether the machine has gone on running since a directory was last written to.

A process that is killed loses nothing that it wrote: the kernel has it. A machine that loses power loses
what was not fsynced. Afterwards the two look alike, but the kernel has an id for every time it was started,
and one for every mount: they are noted in the file `.boot`, and if they are the same, nothing is lost.

After a failed write or fsync nobody knows what the kernel still has, so the note is called doubtful: what is
there may be everything, and it is worth more than what a power cut left (decision 0064).
"""

from __future__ import annotations

import logging

from ottla.log.disk import Disk

logger = logging.getLogger(__name__)

BOOT = ".boot"
DOUBTFUL = ".boot.doubtful"


def is_same_boot(disk: Disk, directory: str, name: str = BOOT) -> bool:
    """Return whether the machine runs since `write_boot_id` was last called; False if that is not known.

    With the `name` DOUBTFUL: whether it does, but the disk has failed since.
    """
    try:
        noted = disk.read_file(f"{directory}/{name}").decode(errors="replace")
    except FileNotFoundError:
        return False
    return bool(noted) and noted == disk.boot_id(directory)


def write_boot_id(disk: Disk, directory: str, name: str = BOOT) -> None:
    """Note that the machine runs; a power cut may take the note, and is noticed then, too."""
    disk.write_file(f"{directory}/{name}", disk.boot_id(directory).encode(), sync=False)


def mark_disk_failed(disk: Disk, directory: str) -> None:
    """Let the next start take it that records may be lost, because the disk has failed."""
    try:
        disk.rename(f"{directory}/{BOOT}", f"{directory}/{DOUBTFUL}")
    except FileNotFoundError:
        pass  # the broker was not yet in the cluster
    except OSError:
        remove_boot_id(disk, directory)


def remove_boot_id(disk: Disk, directory: str) -> None:
    """Let the next start take it that records are lost."""
    for name in (BOOT, DOUBTFUL):
        try:
            disk.remove(f"{directory}/{name}")
        except OSError as error:
            logger.error("%s/%s cannot be removed: %s", directory, name, error)
