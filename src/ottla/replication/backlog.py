"""Bounds how far a leader gets ahead of its in-sync followers: produce requests wait before the append.

Problem: a producer that keeps many requests in flight is faster than replication when CPU is scarce. What
is appended too early is committed late: requests time out, clients that are not idempotent send their
records twice, and followers fall out of sync.

Solution: a partition has a backlog, the bytes that were appended and are not committed. While it is full,
the next request waits, and its connection is not read. Requests with acks=0 or 1 wait only while a follower
lags for so long that it may fall out of sync, and fetches (decision 88).
"""

from __future__ import annotations

import asyncio
from collections import deque

from ottla.replication.partition import Uncommitted

PARTITION_BYTES = 4 << 20
"""How much of one partition may be appended and not committed."""
BROKER_BYTES = 64 << 20
"""How much of all partitions; beyond, a partition may have RESERVED_BYTES."""
RESERVED_BYTES = 1 << 20
LATE_FRACTION = 8
"""Requests with acks=0 or 1 wait if a follower lags by this fraction of replica.lag.time.max.ms."""
SILENT_MS = 1_000
"""How long requests with acks=0 or 1 wait at most; a follower that has not fetched since then is silent."""


class BrokerBacklog:
    """The backlogs of all partitions that a broker leads, added up."""

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
    """The uncommitted bytes of one partition, and the requests that wait for room, in their order."""

    def __init__(self, broker: BacklogSum) -> None:
        self.size_bytes = 0
        self._broker = broker
        self._uncommitted = Uncommitted()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._admitted_bytes = 0
        """Of requests that were woken and have not been appended yet."""

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
        """Take off what is committed now, and admit requests that wait."""
        committed = self._uncommitted.commit(high_watermark)
        if committed:
            self.size_bytes -= committed
            self._broker.size_bytes -= committed
            if self._waiting:
                self._admit()

    async def wait(self, size_bytes: int, timeout_s: float) -> bool:
        """Wait until there is room for a request; return False if that took too long."""
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
        """Let all requests go on: what they wait for will not come, and the append will say why."""
        while self._waiting:
            self._admit_first()

    def close(self) -> None:
        """Stop counting: the partition is not led any more, or has no followers."""
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
