"""The interface between the log and the operating system's files.

All access to a disk goes through a `Disk` and its `OpenFile`s, so that tests can use
`ottla.testing.simulation.disk.SimDisk`, which loses power, tears writes and fills up. `RealDisk` is thin: one
method, one or two system calls.

Rules for every implementation:

- Failures are `OSError`s with their errno; the log turns them into KafkaStorageError.
- `write_at` writes everything or raises. The caller truncates what a failed call left behind.
- Nothing is durable before `fsync` (contents) and `fsync_dir` (creations, renames, removals).
- An `OpenFile` closes its descriptor when the last reference goes; a file may be renamed or removed while it
  is open. All its methods may be called from any thread.

`boot_id` identifies the running kernel and the mount of a file system. statx(2) returns, since Linux 6.8, a
mount id that is never reused. Its result has 256 bytes:

    at    size  field
    0x00     4  which fields are valid; bit 0x4000 is the unique mount id
    0x90     8  the mount id
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol

BOOT_ID = "/proc/sys/kernel/random/boot_id"

_ANSWER_BYTES, _MASK_AT, _MOUNT_AT = 256, 0x00, 0x90
_UNIQUE_MOUNT_ID = 0x4000
_AT_FDCWD = -100


def boot_and_mount_id(path: str) -> str:
    """Return the boot id and the mount id of the file system of `path`; empty if the kernel does not provide
    them.
    """
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            boot = file.read().strip()
        mount = _unique_mount_id(path)
    except (OSError, AttributeError):  # no such file, no such function in the C library
        return ""
    return "" if mount is None else f"{boot}/{mount}"


def _unique_mount_id(path: str) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    answer = ctypes.create_string_buffer(_ANSWER_BYTES)
    if libc.statx(_AT_FDCWD, os.fsencode(path), 0, _UNIQUE_MOUNT_ID, answer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    if not int.from_bytes(answer.raw[_MASK_AT : _MASK_AT + 4], sys.byteorder) & _UNIQUE_MOUNT_ID:
        return None
    return int.from_bytes(answer.raw[_MOUNT_AT : _MOUNT_AT + 8], sys.byteorder)


Bytes = bytes | bytearray | memoryview


class DirEntry(NamedTuple):
    """One entry of a directory."""

    name: str
    is_dir: bool
    size_bytes: int


class OpenFile(Protocol):
    """An open file. Positions are explicit; there is no cursor."""

    def fileno(self) -> int:
        """Return the descriptor, or -1 if there is none (in-memory files)."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, data: Bytes) -> None:
        """Write all of `data` at `position`, or raise OSError after possibly writing some of it."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        ...

    def fsync(self) -> None:
        """Return once the contents would survive a power failure."""
        ...

    def size(self) -> int:
        """Return the size in bytes."""
        ...

    def modified_ms(self) -> int:
        """Return when the contents last changed, in milliseconds since the epoch."""
        ...


class Disk(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """Open for reading and writing; FileNotFoundError unless it exists or `create`."""
        ...

    def open_read(self, path: str) -> OpenFile:
        """Open for reading only."""
        ...

    def read_file(self, path: str) -> bytes:
        """Return a small file's contents."""
        ...

    def write_file(self, path: str, data: Bytes, *, sync: bool, mode: int = 0o644) -> None:
        """Write a small file from its beginning; with `sync`, its contents are durable afterwards.

        A new file gets this mode.
        """
        ...

    def list_dir(self, path: str) -> list[DirEntry]:
        """Return a directory's entries, unordered."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of this name."""
        ...

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename; replaces a file of the new name."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; no error if it does not exist."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; no error if it does not exist."""
        ...

    def boot_id(self, path: str) -> str:
        """Return an id of the current boot and mount of the file system of `path`.

        It changes with a power failure. Empty if it is not known.
        """
        ...

    def fsync_dir(self, path: str) -> None:
        """Return once the directory's entries would survive a power failure."""
        ...

    def sync_all(self, path: str) -> None:
        """Return once everything on the file system that holds `path` is durable."""
        ...

    def volume_bytes(self, path: str) -> tuple[int, int]:
        """Return the size and the free space of the file system that holds `path`."""
        ...

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file exclusively, creating it; return a function that releases it, or None if it is
        locked.
        """
        ...


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_fd",)

    def __init__(self, path: str, flags: int, mode: int = 0o644) -> None:
        self._fd = -1
        self._fd = os.open(path, flags | os.O_CLOEXEC, mode)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing > 0:
            part = os.pread(self._fd, missing, position + size - missing)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def write_at(self, position: int, data: Bytes) -> None:
        """Write all of `data` at `position`, or raise."""
        written = os.pwrite(self._fd, data, position)
        if written != len(data):
            self._write_rest(position, memoryview(data), written)

    def _write_rest(self, position: int, data: memoryview, written: int) -> None:
        while written < len(data):
            more = os.pwrite(self._fd, data[written:], position + written)
            if more == 0:
                raise OSError(errno.ENOSPC, "the disk took no more bytes")
            written += more

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        """Return once the contents would survive a power failure."""
        os.fdatasync(self._fd)

    def size(self) -> int:
        """Return the size in bytes."""
        return os.fstat(self._fd).st_size

    def modified_ms(self) -> int:
        """Return when the contents last changed."""
        return os.fstat(self._fd).st_mtime_ns // 1_000_000


class RealDisk:
    """The operating system's files."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        """Open for reading and writing."""
        return RealFile(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR)

    def open_read(self, path: str) -> RealFile:
        """Open for reading only."""
        return RealFile(path, os.O_RDONLY)

    def read_file(self, path: str) -> bytes:
        """Return a small file's contents."""
        with open(path, "rb") as file:
            return file.read()

    def write_file(self, path: str, data: Bytes, *, sync: bool, mode: int = 0o644) -> None:
        """Write a small file from its beginning."""
        file = RealFile(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        file.write_at(0, data)
        if sync:
            file.fsync()

    def list_dir(self, path: str) -> list[DirEntry]:
        """Return a directory's entries."""
        found = []
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    is_dir = entry.is_dir()
                    size = 0 if is_dir else entry.stat().st_size
                except FileNotFoundError:
                    continue  # a thread that replaces a file was faster
                found.append(DirEntry(entry.name, is_dir, size))
        return found

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of this name."""
        return os.path.exists(path)

    def make_dir(self, path: str) -> None:
        """Create a directory, and its parents."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Rename; replaces a file of the new name."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """Remove a file; no error if it does not exist."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; no error if it does not exist."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass

    def boot_id(self, path: str) -> str:
        """Return the kernel's boot id and mount id."""
        return boot_and_mount_id(path)

    def fsync_dir(self, path: str) -> None:
        """Return once the directory's entries would survive a power failure."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: str) -> None:
        """Return once everything on the file system that holds `path` is durable.

        One syncfs(2) instead of thousands of fsyncs, for a clean shutdown with many partitions.
        """
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
        finally:
            os.close(fd)

    def volume_bytes(self, path: str) -> tuple[int, int]:
        """Return the size and the free space of the file system that holds `path`."""
        volume = os.statvfs(path)
        return volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file exclusively; the kernel releases it when the process ends."""
        file = RealFile(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        held = [file]
        return held.clear
