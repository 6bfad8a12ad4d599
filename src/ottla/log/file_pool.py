"""Limit the open file descriptors of all logs: thousands of partitions, at most a thousand open files.

A `PooledFile` opens itself when it is used, and the pool may close it when too many files are open. The file
to close is chosen by the second-chance (clock) algorithm: the pool visits its files in the order they were
opened, skips each that was used since the last visit, and closes the first that was not. Using an open file
only sets a flag.

Closing only drops the pool's reference: a descriptor that is being sent from, or fsynced in a thread, stays
open until its last user releases it.
"""

from __future__ import annotations

import resource
from threading import Lock

from ottla.log.disk import Disk, OpenFile

DEFAULT_OPEN_FILES = 1000


def open_file_limit() -> int:
    """Return how many files to keep open: a quarter of the process's limit; the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return DEFAULT_OPEN_FILES
    return max(1, min(DEFAULT_OPEN_FILES, soft // 4))


class PooledFile:
    """A file that is opened when needed."""

    __slots__ = ("_file", "_pool", "path", "used")

    def __init__(self, pool: FilePool, path: str) -> None:
        self._pool = pool
        self._file: OpenFile | None = None
        self.path = path
        self.used = False

    def open(self) -> OpenFile:
        """Return the open file; FileNotFoundError if it does not exist."""
        self.used = True
        return self._file or self._pool.open(self, create=False)

    def create(self) -> OpenFile:
        """Return the open file, creating it if it does not exist."""
        self.used = True
        return self._file or self._pool.open(self, create=True)

    def close(self) -> None:
        """Release the descriptor; it is reopened when needed."""
        self._pool.close(self)

    def _attach(self, file: OpenFile | None) -> None:
        self._file = file


class FilePool:
    """Keeps at most `max_open` files open. Thread-safe."""

    def __init__(self, disk: Disk, max_open: int = DEFAULT_OPEN_FILES) -> None:
        self._disk = disk
        self._max_open = max(1, max_open)
        self._open: dict[PooledFile, OpenFile] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, pooled: PooledFile, *, create: bool) -> OpenFile:
        """Open `pooled`, closing another file if necessary."""
        file = self._disk.open(pooled.path, create=create)
        with self._lock:
            self._make_room()
            self._open[pooled] = file
            pooled._attach(file)
            pooled.used = False  # one access is not frequent use: files opened again are kept open
        return file

    def close(self, pooled: PooledFile) -> None:
        """Drop the pool's reference to `pooled`'s descriptor."""
        with self._lock:
            self._open.pop(pooled, None)
            pooled._attach(None)

    def _make_room(self) -> None:
        while len(self._open) >= self._max_open:
            pooled = next(iter(self._open))
            file = self._open.pop(pooled)
            if pooled.used:
                pooled.used = False
                self._open[pooled] = file
            else:
                pooled._attach(None)
