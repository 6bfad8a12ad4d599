"""Files for short-lived brokers: never synced, and in memory if possible.

A killed broker loses nothing by that; only a power failure would. (Tests of the broker use
simulation/disk.py for that.)
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ottla.log.disk import Bytes, RealDisk, RealFile

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 256 * 1024 * 1024
"""Containers often have 64 MiB there: too little for brokers."""


class QuickFile(RealFile):
    """A file that is left to the page cache."""

    __slots__ = ()

    def fsync(self) -> None:
        """Do nothing."""


class QuickDisk(RealDisk):
    """The operating system's files, never synced."""

    def open(self, path: str, *, create: bool = False) -> QuickFile:
        """Open for reading and writing."""
        return QuickFile(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR)

    def open_read(self, path: str) -> QuickFile:
        """Open for reading only."""
        return QuickFile(path, os.O_RDONLY)

    def write_file(self, path: str, data: Bytes, *, sync: bool, mode: int = 0o644) -> None:
        """Write a small file from its beginning."""
        super().write_file(path, data, sync=False, mode=mode)

    def fsync_dir(self, path: str) -> None:
        """Do nothing."""

    def sync_all(self, path: str) -> None:
        """Do nothing."""


def memory_folder() -> Path:
    """Create a folder in memory, or else in the directory of temporary files."""
    return Path(tempfile.mkdtemp(prefix="ottla-test-", dir=MEMORY if _has_room(MEMORY) else None))


def _has_room(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ENOUGH_BYTES
    except OSError:
        return False
