"""Limit how far a leader gets ahead of its in-sync followers: produce requests wait before the append.

Problem: a producer that keeps many requests in flight is faster than replication when CPU is scarce. What is
appended too early is committed late: requests time out, non-idempotent clients send their records twice, and
followers fall out of sync.

Solution: a partition has a backlog, the bytes that are appended and not committed. While it is full, the next
request waits, and its connection is not read. Requests with acks=0 or 1 wait only while a follower that
fetches lags so far that it may fall out of sync (decision 88).
"""

from __future__ import annotations

import asyncio
from collections import deque

PARTITION_BYTES = 4 << 20
"""How many bytes of one partition may be uncommitted."""
BROKER_BYTES = 64 << 20
"""How many bytes of all partitions; beyond it, a partition may have RESERVED_BYTES."""
RESERVED_BYTES = 1 << 20
LATE_FRACTION = 8
"""Requests with acks=0 or 1 wait if a follower lags by this fraction of replica.lag.time.max.ms."""
SILENT_MS = 1_000
"""How long requests with acks=0 or 1 wait at most; a follower that has not fetched since then is not waited
for.
"""

MAX_TRACKED_APPENDS = 1_000
"""How many appends are tracked one by one."""


class UncommittedAppends:
    """The sizes of appends that are not committed yet: consumers wait for bytes, not for offsets."""

    __slots__ = ("_appends",)

    def __init__(self) -> None:
        self._appends: deque[tuple[int, int]] = deque()  # end offset and size of each

    def add(self, end_offset: int, size_bytes: int) -> None:
        """Add an append; beyond MAX_TRACKED_APPENDS they are merged."""
        if len(self._appends) >= MAX_TRACKED_APPENDS:
            size_bytes += self._appends.pop()[1]
        self._appends.append((end_offset, size_bytes))

    def commit(self, high_watermark: int) -> int:
        """Remove what is committed now, and return the number of bytes."""
        size_bytes, appends = 0, self._appends
        while appends and appends[0][0] <= high_watermark:
            size_bytes += appends.popleft()[1]
        return size_bytes

    def clear(self) -> None:
        """Remove everything."""
        self._appends.clear()


class BrokerBacklog:
    """The sum of the backlogs of all partitions that a broker leads."""

    __slots__ = ("acks_all", "total")

    def __init__(self) -> None:
        self.acks_all = BacklogSum()
        self.total = BacklogSum()


class BacklogSum:
    """A number of bytes that several backlogs share."""

    __slots__ = ("size_bytes",)

    def __init__(self) -> None:
        self.size_bytes = 0


class Backlog:
    """The uncommitted bytes of one partition, and the requests that wait for room, in FIFO order."""

    def __init__(self, broker: BacklogSum) -> None:
        self.size_bytes = 0
        self._broker = broker
        self._uncommitted = UncommittedAppends()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._admitted_bytes = 0
        """Of requests that were admitted and are not appended yet."""

    @property
    def has_waiting(self) -> bool:
        """Return whether requests wait."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Return whether a request has to wait."""
        return bool(self._waiting) or self._room() <= 0

    def add(self, end_offset: int, size_bytes: int) -> None:
        """Count an append."""
        self._uncommitted.add(end_offset, size_bytes)
        self.size_bytes += size_bytes
        self._broker.size_bytes += size_bytes

    def commit(self, high_watermark: int) -> None:
        """Subtract what is committed now, and admit waiting requests."""
        committed = self._uncommitted.commit(high_watermark)
        if committed:
            self.size_bytes -= committed
            self._broker.size_bytes -= committed
            if self._waiting:
                self._admit()

    async def wait(self, size_bytes: int, timeout_s: float) -> bool:
        """Wait until there is room for a request; return False after a timeout."""
        loop = asyncio.get_running_loop()
        admitted: asyncio.Future[None] = loop.create_future()
        self._waiting.append((size_bytes, admitted))
        try:
            await asyncio.wait([admitted], timeout=timeout_s)
        finally:
            if admitted.done():
                self._admitted_bytes -= size_bytes
            else:
                admitted.cancel()
            # After the append of this request. If it was refused, nothing else would admit the next one.
            loop.call_soon(self._admit)
        return not admitted.cancelled()

    def admit_all(self) -> None:
        """Admit all requests: what they wait for will not happen, and the append returns the error."""
        while self._waiting:
            self._admit_first()

    def close(self) -> None:
        """Stop counting: the partition is no longer led here, or has no followers."""
        self._broker.size_bytes -= self.size_bytes
        self.size_bytes = 0
        self._uncommitted.clear()
        self.admit_all()

    def _room(self) -> int:
        limit = PARTITION_BYTES if self._broker.size_bytes < BROKER_BYTES else RESERVED_BYTES
        return limit - self.size_bytes - self._admitted_bytes

    def _admit(self) -> None:
        while self._waiting and self._room() > 0:
            self._admit_first()

    def _admit_first(self) -> None:
        size_bytes, admitted = self._waiting.popleft()
        if not admitted.done():
            self._admitted_bytes += size_bytes
            admitted.set_result(None)
