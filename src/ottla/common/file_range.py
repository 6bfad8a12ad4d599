"""A stretch of a file, on its way from the log to a socket without passing through Python.

The log hands these out and the network sends them; neither knows the other. A range keeps its
file open: the descriptor is closed when the last owner lets go, so a segment may be deleted or
replaced while it is being sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ReadableFile(Protocol):
    """An open file that can be read at a position."""

    def fileno(self) -> int:
        """Return the descriptor, or -1 if there is none (in-memory files)."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        ...


@dataclass(frozen=True, slots=True)
class FileRange:
    """`size` bytes of `file`, starting at `position`."""

    file: ReadableFile
    position: int
    size: int

    def read(self) -> bytes:
        """Return the bytes themselves."""
        return self.file.read_at(self.position, self.size)
