"""The files of one segment: their names, their handles, and the renames that they go through together."""

from __future__ import annotations

from ottla.log.file_pool import PooledFile
from ottla.log.names import LOG, SEGMENT_KINDS, file_name
from ottla.log.storage import Storage


class SegmentFiles:
    """`<base offset>.log` and its companions, all with the same suffix."""

    __slots__ = ("_handles", "base_offset", "directory", "storage", "suffix")

    def __init__(self, storage: Storage, directory: str, base_offset: int, suffix: str = "") -> None:
        self.storage = storage
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self._handles: dict[str, PooledFile] | None = None

    def path(self, kind: str) -> str:
        """Return the name of the file of this kind."""
        return f"{self.directory}/{file_name(self.base_offset, kind)}{self.suffix}"

    def paths(self) -> list[str]:
        """Return the names of all files, existing or not."""
        return [self.path(kind) for kind in SEGMENT_KINDS]

    def handle(self, kind: str) -> PooledFile:
        """Return the file of this kind, to be opened when it is needed."""
        if self._handles is None:
            self._handles = {}
        handle = self._handles.get(kind)
        if handle is None:
            handle = self._handles[kind] = PooledFile(self.storage.pool, self.path(kind))
        return handle

    def close(self) -> None:
        """Let go of all descriptors; they are opened again when needed."""
        for handle in (self._handles or {}).values():
            handle.close()

    def change_suffix(self, suffix: str) -> None:
        """Rename every file that exists.

        The .log file goes last when it takes a place (.swap, none) and first when it leaves one
        (.deleted): whether a segment is there is decided by its .log file alone. If one rename fails,
        those before it are undone.
        """
        leaving = self.suffix == ""
        kinds = sorted(SEGMENT_KINDS, key=lambda kind: (kind == LOG) != leaving)
        self.close()
        self._handles = None
        for number, kind in enumerate(kinds):
            try:
                self._rename(kind, self.suffix, suffix)
            except OSError:
                self._undo(kinds[:number], suffix)
                raise
        self.suffix = suffix

    def _undo(self, kinds: list[str], suffix: str) -> None:
        try:
            for kind in reversed(kinds):
                self._rename(kind, suffix, self.suffix)
        except OSError as error:
            self.storage.take_offline(f"{self.path(LOG)} is half renamed to {suffix}: {error}")

    def _rename(self, kind: str, old: str, new: str) -> None:
        """Rename one file. A segment may lack any but its .log file."""
        name = f"{self.directory}/{file_name(self.base_offset, kind)}"
        try:
            self.storage.disk.rename(name + old, name + new)
        except FileNotFoundError:
            if kind == LOG:
                raise

    def remove(self) -> None:
        """Remove every file, the .log file first."""
        self.close()
        for path in self.paths():
            self.storage.disk.remove(path)
