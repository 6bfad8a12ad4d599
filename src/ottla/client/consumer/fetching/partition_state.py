"""The state of one assigned partition.

    position      the offset of the next record to return; this is what is committed
    ready         decoded records, of which those from `ready_at` on are not returned yet
    fetched       batches to decode next; an error in between is raised when all before it is returned
    fetch_offset  the next offset to fetch: after all of these

`seek` and `drop_fetched` discard what was fetched and increment `version`, so that the response of a Fetch
in flight is recognized as stale.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from ottla.client.consumer.fetching.record import Batch, ConsumerRecord
from ottla.common.ids import TopicPartition

UNKNOWN = -1


class PendingLookup(Enum):
    """What must be looked up before a partition can be fetched."""

    NOTHING = auto()
    COMMITTED = auto()
    """The committed offset; without one, as `auto_offset_reset` says."""
    RESET = auto()
    """The offset of the beginning, of the end, or of a time."""
    VALIDATION = auto()
    """Whether the new leader's log still has the position (KIP-320)."""


class Chunk(NamedTuple):
    """The batches of one response for one partition."""

    batches: Sequence[Batch]
    aborted: tuple[tuple[int, int], ...]
    next_offset: int
    next_epoch: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class PartitionState:
    """One partition; see the module docstring."""

    partition: TopicPartition
    need: PendingLookup = PendingLookup.COMMITTED
    reset_to: int | None = None
    """The time to reset to, or one of the special ones; None: as `auto_offset_reset` says."""
    _position: int = UNKNOWN
    _epoch: int = UNKNOWN
    fetch_offset: int = UNKNOWN
    version: int = 0
    is_paused: bool = False
    ready: list[ConsumerRecord] = field(default_factory=list)
    ready_at: int = 0
    after_ready: tuple[int, int] = (UNKNOWN, UNKNOWN)
    """The position, and its epoch, after all ready records."""
    fetched: deque[Chunk | Exception] = field(default_factory=deque)
    fetched_bytes: int = 0
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    seen_epoch: int = UNKNOWN
    """The epoch of the leader that validated the position last."""
    topic_id: UUID | None = None
    preferred_replica: int = UNKNOWN
    preferred_until: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    missing_since: float | None = None

    @property
    def position(self) -> int:
        """The offset of the next record to return."""
        return self.ready[self.ready_at].offset if self.ready else self._position

    @position.setter
    def position(self, offset: int) -> None:
        self._position = offset

    @property
    def epoch(self) -> int:
        """The leader epoch of the record before the position."""
        return self.ready[self.ready_at - 1].leader_epoch if self.ready_at else self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = epoch

    @property
    def can_fetch(self) -> bool:
        """Whether the position is known, and the partition is neither paused nor full."""
        return self.need is PendingLookup.NOTHING and not self.is_paused and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether an error is queued: nothing is fetched after it."""
        return bool(self.fetched) and isinstance(self.fetched[-1], Exception)

    @property
    def has_records(self) -> bool:
        """Whether there may be records to return."""
        return bool(self.ready) or bool(self.fetched)

    def seek(self, offset: int, epoch: int = UNKNOWN) -> None:
        """Continue at an offset; with an epoch, validate it first."""
        self.ready, self.ready_at = [], 0
        self.position, self.epoch = offset, epoch
        self.need = PendingLookup.NOTHING if epoch < 0 else PendingLookup.VALIDATION
        self.reset_to = None
        self.drop_fetched()

    def require(self, need: PendingLookup, reset_to: int | None = None) -> None:
        """Stop fetching until something has been looked up."""
        self.need, self.reset_to = need, reset_to
        self.drop_fetched()

    def drop_fetched(self) -> None:
        """Discard what was fetched, and fetch from the position again."""
        self.version += 1
        self._position, self._epoch = self.position, self.epoch
        self.ready, self.ready_at = [], 0
        self.fetched.clear()
        self.fetched_bytes = 0
        self.fetch_offset = self.position

    def add(self, chunk: Chunk) -> None:
        """Queue the batches of a response."""
        self.fetched.append(chunk)
        self.fetched_bytes += chunk.size_bytes
        self.fetch_offset = chunk.next_offset

    def fail(self, error: Exception) -> None:
        """Queue an error, to be raised when all before it is returned."""
        if not self.has_failed:
            self.fetched.append(error)

    def pop(self) -> Chunk | Exception:
        """Return the next queued batches or error."""
        found = self.fetched.popleft()
        if isinstance(found, Chunk):
            self.fetched_bytes -= found.size_bytes
        return found

    def set_ready(self, records: list[ConsumerRecord], chunk: Chunk) -> None:
        """Add decoded records."""
        self.after_ready = chunk.next_offset, chunk.next_epoch
        if records:
            self.ready, self.ready_at = records, 0
        else:
            self.finish_ready()

    def hand_out(self, most: int) -> list[ConsumerRecord]:
        """Return the next ready records, and advance the position."""
        start, end = self.ready_at, self.ready_at + most
        if end < len(self.ready):
            self.ready_at = end
            return self.ready[start:end]
        records = self.ready if start == 0 else self.ready[start:]
        self.finish_ready()
        return records

    def hand_out_one(self) -> ConsumerRecord:
        """Return the next ready record, and advance the position."""
        record = self.ready[self.ready_at]
        self.ready_at += 1
        if self.ready_at == len(self.ready):
            self.finish_ready()
        return record

    def finish_ready(self) -> None:
        """Advance the position after all ready records."""
        self.ready, self.ready_at = [], 0
        self.position, self.epoch = self.after_ready
