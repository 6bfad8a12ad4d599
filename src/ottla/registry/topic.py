"""What the registry needs of the `_schemas` topic: read on, ask for its end, append conditionally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class LogRecord(NamedTuple):
    """A record as it stands in the log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    write_id: bytes | None = None
    """The id of the write that appended it, from a header; None for records of other programs."""


class Read(NamedTuple):
    """The next records, and the offset to continue from: after compaction not that of a next record."""

    records: Sequence[LogRecord]
    position: int


class Conflict(Exception):
    """Nothing was appended: another process has written since."""


class Unavailable(Exception):
    """The topic cannot be read or written now. What was to be appended may be there, or be there later."""


class RecordTooLarge(Exception):
    """The topic does not take records as large as these."""


class LogReset(Exception):
    """The log does not have what was read of it any more: it was truncated, or is another topic now."""


class Topic(Protocol):
    """One partition, for one reader and many writers."""

    reads_before_writes: bool
    """Whether the end of the log moves without records, so that a writer must catch up before it decides."""

    async def read(self, timeout_s: float) -> Read:
        """Return the next committed records; wait for some, no longer than the timeout."""
        ...

    def rewind(self) -> None:
        """Read from the beginning again."""
        ...

    async def end_offset(self) -> int:
        """Return the offset behind the last committed record."""
        ...

    async def append(
        self, records: Sequence[tuple[bytes, bytes | None]], expected: int, write_id: bytes, now_ms: int
    ) -> int:
        """Append records as one batch if the log ends at `expected`, and wait until they are committed.

        Returns where they are. Raises Conflict, RecordTooLarge or Unavailable.
        """
        ...
