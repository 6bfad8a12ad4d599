"""Bounds the open descriptors over all logs: thousands of partitions, at most a thousand open files.

A `PooledFile` is a name that opens itself when it is used and may be closed again behind its
owner's back when too many are open. Who is being closed is decided by second chance: the pool goes
round its files in the order they were opened, spares each that was used since the last round, and
closes the first that was not. Using an open file costs no more than setting a flag.

Closing only drops the pool's reference: a descriptor that is still being sent from, or fsynced in
a thread, stays open until its last user lets go.
"""

from __future__ import annotations

import resource
from threading import Lock

from ottla.log.disk import Disk, OpenFile

DEFAULT_OPEN_FILES = 1000


def open_file_limit() -> int:
    """Return how many files to hold open: a quarter of what the process may, the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return DEFAULT_OPEN_FILES
    return max(1, min(DEFAULT_OPEN_FILES, soft // 4))


class PooledFile:
    """One file that is opened when needed."""

    __slots__ = ("_file", "_pool", "path", "used")

    def __init__(self, pool: FilePool, path: str) -> None:
        self._pool = pool
        self._file: OpenFile | None = None
        self.path = path
        self.used = False

    def open(self) -> OpenFile:
        """Return the open file; FileNotFoundError if there is none."""
        self.used = True
        return self._file or self._pool.open(self, create=False)

    def create(self) -> OpenFile:
        """Return the open file, creating it if there is none."""
        self.used = True
        return self._file or self._pool.open(self, create=True)

    def close(self) -> None:
        """Let go of the descriptor; it is reopened when it is needed again."""
        self._pool.close(self)

    def _attach(self, file: OpenFile | None) -> None:
        self._file = file


class FilePool:
    """At most `max_open` open files; any thread may use it."""

    def __init__(self, disk: Disk, max_open: int = DEFAULT_OPEN_FILES) -> None:
        self._disk = disk
        self._max_open = max(1, max_open)
        self._open: dict[PooledFile, OpenFile] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, pooled: PooledFile, *, create: bool) -> OpenFile:
        """Open `pooled` and make room for it."""
        file = self._disk.open(pooled.path, create=create)
        with self._lock:
            self._make_room()
            self._open[pooled] = file
            pooled._attach(file)
            pooled.used = False  # once is not often: files that come back are the ones to spare
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
