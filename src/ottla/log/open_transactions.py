"""Which transactions of a log are open, and how far that lets readers of committed records read.

Everything below the *first unstable offset* is decided: its transactions have ended, with markers that
are committed themselves. (One whose marker is in the log but above the high watermark still holds readers
back: a failover could take the marker away again, and what was readable must stay so.)

Transactions begin in the order of their offsets, so a dictionary keeps the oldest one in front.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

MAX_UNCOMMITTED = 100_000
"""How many ended transactions are remembered until their markers are committed; the oldest goes first."""


class EndedTransaction(NamedTuple):
    """A transaction from its first record to its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_commit: bool


class OpenTransactions:
    """The open transactions of one log by producer, and those whose markers are not committed yet."""

    __slots__ = ("_open", "_uncommitted")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._uncommitted: deque[EndedTransaction] = deque(maxlen=MAX_UNCOMMITTED)

    def __len__(self) -> int:
        return len(self._open)

    def __bool__(self) -> bool:
        return bool(self._open or self._uncommitted)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Take note of a producer's first transactional batch."""
        self._open[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int, is_commit: bool) -> EndedTransaction | None:
        """Take note of a marker; return the transaction that it ends, or None if there is none here."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        ended = EndedTransaction(producer_id, first_offset, marker_offset, is_commit)
        self._uncommitted.append(ended)
        return ended

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest transaction starts that has no marker; None if all have one."""
        return next(iter(self._open.values())) if self._open else None

    def committed_up_to(self, high_watermark: int) -> None:
        """Forget ended transactions whose markers are below the high watermark."""
        waiting = self._uncommitted
        while waiting and waiting[0].marker_offset < high_watermark:
            waiting.popleft()

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where the first transaction starts that is not decided for good; None if all are."""
        self.committed_up_to(high_watermark)
        first = self.first_open_offset
        for ended in self._uncommitted:
            if first is None or ended.first_offset < first:
                first = ended.first_offset
        return first
