"""Detect whether the machine has kept running since a log directory was last written to.

Problem: a process that is killed loses nothing that it wrote, because the kernel has it. A machine that loses
power loses what was not fsynced. After a restart the two look the same.

Solution: the kernel has an id for every boot and for every mount. Both are stored in the file `.boot`; if
they are unchanged at the next start, nothing is lost. After a failed write or fsync the state of the page
cache is unknown, so the file is renamed to `.boot.doubtful`: the logs may be complete, and are worth more
than those of a machine that lost power (decision 0064).
"""

from __future__ import annotations

import logging

from ottla.log.disk import Disk

logger = logging.getLogger(__name__)

BOOT_FILE = ".boot"
DISK_FAILED_FILE = ".boot.doubtful"
ASIDE_FILE = ".boot.opening"


def is_same_boot(disk: Disk, directory: str, name: str = BOOT_FILE) -> bool:
    """Return whether the machine has kept running since `write_boot_id`; False if that is not known.

    With `name=DISK_FAILED_FILE`: whether it has, but the disk failed in the meantime.
    """
    try:
        noted = disk.read_file(f"{directory}/{name}").decode(errors="replace")
    except FileNotFoundError:
        return False
    return bool(noted) and noted == disk.boot_id(directory)


def write_boot_id(disk: Disk, directory: str, name: str = BOOT_FILE) -> None:
    """Store the boot id. A power failure may lose the file, which is detected in the same way."""
    disk.write_file(f"{directory}/{name}", disk.boot_id(directory).encode(), sync=False)


def mark_disk_failed(disk: Disk, directory: str) -> None:
    """Record that the disk failed, so that the next start assumes that records may be lost."""
    try:
        disk.rename(f"{directory}/{BOOT_FILE}", f"{directory}/{DISK_FAILED_FILE}")
    except FileNotFoundError:
        pass  # the broker was not yet in the cluster
    except OSError:
        remove_boot_id(disk, directory)


def set_boot_id_aside(disk: Disk, directory: str) -> None:
    """Make the next start assume that records are lost, unless the boot id is put back."""
    try:
        disk.rename(f"{directory}/{BOOT_FILE}", f"{directory}/{ASIDE_FILE}")
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.error("cannot rename %s/%s: %s", directory, BOOT_FILE, error)
    remove_boot_id(disk, directory)


def put_boot_id_back(disk: Disk, directory: str) -> None:
    """Undo `set_boot_id_aside`, which needs no space on the disk."""
    try:
        disk.rename(f"{directory}/{ASIDE_FILE}", f"{directory}/{BOOT_FILE}")
    except OSError as error:
        logger.error("cannot rename %s/%s: %s", directory, ASIDE_FILE, error)


def remove_boot_id(disk: Disk, directory: str) -> None:
    """Make the next start assume that records are lost."""
    for name in (BOOT_FILE, DISK_FAILED_FILE):
        try:
            disk.remove(f"{directory}/{name}")
        except OSError as error:
            logger.error("cannot remove %s/%s: %s", directory, name, error)
