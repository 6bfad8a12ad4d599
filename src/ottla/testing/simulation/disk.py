"""A disk in memory that fails like real ones do, and always the same way for the same seed.

    disk = SimDisk()
    ...                                  # use it as an `ottla.log.disk.Disk`
    disk.kill()                          # kill -9: the page cache survives, locks and open files do not
    disk.crash(random.Random(seed))      # power failure: what was not fsynced is lost, kept, or torn

What a power failure does
- A file's contents since its last fsync: each 4 KiB page is as it was or as it became, and the file
  may end anywhere between its old and its new size. Pages that never arrived are zeros.
- A directory's creations, renames and removals since its last fsync_dir: the first few of them
  happened, in order, the rest did not.

Faults on demand: `capacity_bytes`, or `limit` for one directory, makes writes run short and then fail with
ENOSPC; `fail` makes the next calls of one kind fail with an errno.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from ottla.log.disk import Bytes, DirEntry

# Files and folders in memory that know which part of them is durable.

PAGE_BYTES = 4096


@dataclass(eq=False)
class SimContents:
    """Contents: as processes see them, and as they would be after a power failure."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    modified_ms: int = 0

    def fsync(self) -> None:
        """Make the contents durable."""
        self.durable = bytes(self.data)

    def lose_power(self, rng: Random) -> None:
        """Lose, keep or tear what is not durable."""
        low, high = sorted((len(self.durable), len(self.data)))
        size = rng.choice((len(self.durable), len(self.data), rng.randint(low, high)))
        after = bytearray(size)
        for start in range(0, size, PAGE_BYTES):
            page = slice(start, min(start + PAGE_BYTES, size))
            old, new = self.durable[page], bytes(self.data[page])
            kept = new if old == new or rng.random() < 0.7 else old
            after[start : start + len(kept)] = kept
        self.data = after
        self.durable = bytes(after)


@dataclass(eq=False)
class SimFolder:
    """Members: as processes see them, and the steps since they were last durable."""

    members: dict[str, SimFolder | SimContents] = field(default_factory=dict)
    durable: dict[str, SimFolder | SimContents] = field(default_factory=dict)
    steps: list[tuple[tuple[str, SimFolder | SimContents | None], ...]] = field(default_factory=list)

    def change(self, *step: tuple[str, SimFolder | SimContents | None]) -> None:
        """Set (or, with None, remove) members, all in one step."""
        self.steps.append(step)
        _apply(self.members, step)

    def fsync(self) -> None:
        """Make the members' names durable."""
        self.durable = dict(self.members)
        self.steps.clear()

    def lose_power(self, rng: Random) -> None:
        """Let the first few of the steps have happened; then the members lose power."""
        for step in self.steps[: rng.randint(0, len(self.steps))]:
            _apply(self.durable, step)
        self.members = dict(self.durable)
        self.steps.clear()
        for _, member in sorted(self.members.items()):
            member.lose_power(rng)

    def sync_all(self) -> None:
        """Make everything below durable."""
        self.fsync()
        for member in self.members.values():
            member.sync_all() if isinstance(member, SimFolder) else member.fsync()


def _apply(
    members: dict[str, SimFolder | SimContents], step: tuple[tuple[str, SimFolder | SimContents | None], ...]
) -> None:
    for name, member in step:
        if member is None:
            members.pop(name, None)
        else:
            members[name] = member


def size_of(node: SimFolder | SimContents) -> int:
    """Return the bytes of all files below."""
    if isinstance(node, SimContents):
        return len(node.data)
    return sum(size_of(member) for member in node.members.values())


@dataclass
class _Fault:
    kind: str
    code: int
    times: int
    path_part: str


class SimFile:
    """An open file of a `SimDisk`."""

    def __init__(self, disk: SimDisk, path: str, file: SimContents, *, read_only: bool) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        self._read_only = read_only
        self._boot = disk.boots

    def _check(self, kind: str) -> None:
        if self._boot != self._disk.boots:
            raise OSError(errno.EBADF, "this file was opened before the last crash", self._path)
        if self._read_only and kind in ("write", "truncate"):
            raise OSError(errno.EBADF, "this file was opened for reading", self._path)
        self._disk.check(kind, self._path)

    def fileno(self) -> int:
        """Return -1: there is no descriptor."""
        return -1

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        self._check("read")
        return bytes(self._file.data[position : position + size])

    def write_at(self, position: int, data: Bytes) -> None:
        """Write all of `data`, or as much as fits and raise ENOSPC."""
        self._check("write")
        fits = min(len(data), self._disk.room_for(self._path, len(self._file.data), position))
        end = position + fits
        if position > len(self._file.data):
            self._file.data.extend(bytes(position - len(self._file.data)))
        self._file.data[position:end] = data[:fits]
        self._file.modified_ms = self._disk.now_ms
        if fits < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def truncate(self, size: int) -> None:
        """Cut (or extend with zeros) to `size` bytes."""
        self._check("truncate")
        del self._file.data[size:]
        self._file.data.extend(bytes(size - len(self._file.data)))
        self._file.modified_ms = self._disk.now_ms

    def fsync(self) -> None:
        """Make the contents durable."""
        self._check("fsync")
        self._file.fsync()

    def size(self) -> int:
        """Return the size in bytes."""
        return len(self._file.data)

    def modified_ms(self) -> int:
        """Return when the contents last changed."""
        return self._file.modified_ms


class SimDisk:
    """A file system in memory, with power failures, a capacity, and faults."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.now_ms = 0
        """What files take as the time of their last change."""
        self.boots = 0
        self.power_cuts = 0
        self.fsyncs = 0
        self.forgets_boots = False
        """Whether every kill looks like a power failure, as where the kernel has no ids for mounts."""
        self._root = SimFolder()
        self._limits: dict[str, int] = {}
        self._former: dict[str, SimFolder] = {}
        self._locks: set[str] = set()
        self._faults: list[_Fault] = []

    # Faults
    def fail(self, kind: str, code: int, *, times: int = 1, path_part: str = "") -> None:
        """Let the next `times` calls of `kind` on paths that contain `path_part` fail.

        Kinds: open, read, write, truncate, fsync, fsync_dir, rename, remove.
        """
        self._faults.append(_Fault(kind, code, times, path_part))

    def check(self, kind: str, path: str) -> None:
        """Raise if a fault is due."""
        self.fsyncs += kind in ("fsync", "fsync_dir")
        for fault in self._faults:
            if fault.kind == kind and fault.times > 0 and fault.path_part in path:
                fault.times -= 1
                raise OSError(fault.code, os.strerror(fault.code), path)

    def limit(self, path: str, room_bytes: int = 0) -> None:
        """Let only so many more bytes fit in one directory, as if it were a disk of its own."""
        self._limits[path] = self.used_bytes(path) + room_bytes

    def heal(self) -> None:
        """Drop all faults and capacities."""
        self._faults.clear()
        self._limits.clear()
        self.capacity_bytes = None

    def kill(self) -> None:
        """End the process: open files and locks are gone, contents are not."""
        self.boots += 1
        self._locks.clear()

    def crash(self, rng: Random) -> None:
        """Cut the power."""
        self.kill()
        self.power_cuts += 1
        self._root.lose_power(rng)

    def replace(self, path: str = "") -> None:
        """Put an empty disk in its place, or in that of the directory `path`, while no process runs."""
        if path and self.exists(path):
            parent, name = self._parent(path)
            self._former[path] = self._dir(path)
            parent.members[name] = parent.durable[name] = SimFolder()
        elif not path:
            self._former[path], self._root = self._root, SimFolder()

    def put_back(self) -> None:
        """Undo `replace`, while no process runs."""
        for path, former in self._former.items():
            if path:
                parent, name = self._parent(path)
                parent.members[name] = parent.durable[name] = former
            else:
                self._root = former
        self._former.clear()

    def used_bytes(self, path: str = "") -> int:
        """Return the size of all files together, or of those in one directory."""
        return size_of(self._dir(path))

    def room_for(self, path: str, size: int, position: int) -> int:
        """Return how many bytes can be written at `position` of this file of `size` bytes."""
        if self.capacity_bytes is None and not self._limits:
            return 1 << 62
        return self._free_bytes(path) + max(0, size - position)

    def _free_bytes(self, path: str) -> int:
        size = self.capacity_bytes if self.capacity_bytes is not None else 1 << 40
        free = [size - self.used_bytes()]
        free += [
            limit - self.used_bytes(at)
            for at, limit in self._limits.items()
            if f"{path}/".startswith(f"{at}/")
        ]
        return max(0, min(free))

    def contents(self, path: str) -> bytearray:
        """Return a file's contents themselves, for tests to damage."""
        return self._file(path).data

    # What a Disk does
    def open(self, path: str, *, create: bool = False) -> SimFile:
        """Open for reading and writing."""
        self.check("open", path)
        parent, name = self._parent(path)
        if create and name not in parent.members:
            parent.change((name, SimContents(modified_ms=self.now_ms)))
        return SimFile(self, path, self._file(path), read_only=False)

    def open_read(self, path: str) -> SimFile:
        """Open for reading only."""
        self.check("open", path)
        return SimFile(self, path, self._file(path), read_only=True)

    def read_file(self, path: str) -> bytes:
        """Return a file's contents."""
        return self.open_read(path).read_at(0, 1 << 62)

    def write_file(self, path: str, data: Bytes, *, sync: bool, mode: int = 0o644) -> None:
        """Write a file from its beginning."""
        file = self.open(path, create=True)
        file.truncate(0)
        file.write_at(0, data)
        if sync:
            file.fsync()

    def list_dir(self, path: str) -> list[DirEntry]:
        """Return a directory's members."""
        return [
            DirEntry(
                name, isinstance(member, SimFolder), 0 if isinstance(member, SimFolder) else len(member.data)
            )
            for name, member in self._dir(path).members.items()
        ]

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of this name."""
        if not _parts(path):
            return True
        try:
            parent, name = self._parent(path)
        except FileNotFoundError:
            return False
        return name in parent.members

    def make_dir(self, path: str) -> None:
        """Create a directory, and its parents."""
        at = self._root
        for name in _parts(path):
            if name not in at.members:
                at.change((name, SimFolder()))
            member = at.members[name]
            assert isinstance(member, SimFolder)
            at = member

    def rename(self, old: str, new: str) -> None:
        """Rename within a directory; replaces a file of the new name."""
        self.check("rename", old)
        parent, name = self._parent(old)
        target, new_name = self._parent(new)
        if name not in parent.members:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        assert parent is target
        parent.change((new_name, parent.members[name]), (name, None))

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is gone already."""
        self.check("remove", path)
        self._remove(path)

    def remove_dir(self, path: str) -> None:
        """Remove an empty directory; no error if it is gone already."""
        if self.exists(path) and self.list_dir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._remove(path)

    def boot_id(self, path: str) -> str:
        """Return what changes with every power failure."""
        return f"boot-{self.boots if self.forgets_boots else self.power_cuts}"

    def fsync_dir(self, path: str) -> None:
        """Make the directory's members durable."""
        self.check("fsync_dir", path)
        self._dir(path).fsync()

    def sync_all(self, path: str) -> None:
        """Make everything durable."""
        self.check("fsync", path)
        self._root.sync_all()

    def volume_bytes(self, path: str) -> tuple[int, int]:
        """Return the capacity and what is left of it."""
        return self.capacity_bytes or 1 << 40, self._free_bytes(path)

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take an exclusive lock on a file, creating it."""
        self.open(path, create=True)
        if path in self._locks:
            return None
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    def _remove(self, path: str) -> None:
        if self.exists(path):
            parent, name = self._parent(path)
            parent.change((name, None))

    def _parent(self, path: str) -> tuple[SimFolder, str]:
        *folders, name = _parts(path)
        return self._dir("/".join(folders)), name

    def _dir(self, path: str) -> SimFolder:
        at: SimFolder | SimContents = self._root
        for name in _parts(path):
            if not isinstance(at, SimFolder) or name not in at.members:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            at = at.members[name]
        if not isinstance(at, SimFolder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return at

    def _file(self, path: str) -> SimContents:
        parent, name = self._parent(path)
        member = parent.members.get(name)
        if not isinstance(member, SimContents):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return member


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
