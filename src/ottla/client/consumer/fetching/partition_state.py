"""What a consumer knows of one partition that it reads.

    position      the next offset to hand out; what is committed, and what `position()` says
    ready         records that are decoded, of which those from `ready_at` on are still to be handed out
    fetched       batches as they came, to be decoded next; an error among them is raised when it is its turn
    fetch_offset  the next offset to ask the broker for: behind all of these

`seek` and `drop_fetched` throw away what was fetched and count `version` up, so that the answer to a fetch
that is under way is known to be stale.
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


class Need(Enum):
    """What has to be found out before a partition can be read."""

    NOTHING = auto()
    COMMITTED = auto()
    """Where the group is; if it is nowhere, where `auto_offset_reset` says."""
    RESET = auto()
    """Which offset the beginning, the end or a time is."""
    VALIDATION = auto()
    """Whether the position is still in the log, as another leader has taken over (KIP-320)."""


class Chunk(NamedTuple):
    """What one fetch brought for one partition."""

    batches: Sequence[Batch]
    aborted: tuple[tuple[int, int], ...]
    next_offset: int
    next_epoch: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class PartitionState:
    """One partition; see the module's description."""

    partition: TopicPartition
    need: Need = Need.COMMITTED
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
    """The position, and its epoch, when all that is ready has been handed out."""
    fetched: deque[Chunk | Exception] = field(default_factory=deque)
    fetched_bytes: int = 0
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    seen_epoch: int = UNKNOWN
    """The epoch of the leader by whom the position was last found good."""
    topic_id: UUID | None = None
    preferred_replica: int = UNKNOWN
    preferred_until: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    missing_since: float | None = None

    @property
    def position(self) -> int:
        """The next offset to hand out."""
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
        """Whether it is known from where to fetch, and wanted."""
        return self.need is Need.NOTHING and not self.is_paused and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether an error waits to be raised: nothing can be fetched behind it."""
        return bool(self.fetched) and isinstance(self.fetched[-1], Exception)

    @property
    def has_records(self) -> bool:
        """Whether there may be something to hand out."""
        return bool(self.ready) or bool(self.fetched)

    def seek(self, offset: int, epoch: int = UNKNOWN) -> None:
        """Go on from an offset; with an epoch, only if the log still has it."""
        self.ready, self.ready_at = [], 0
        self.position, self.epoch = offset, epoch
        self.need = Need.NOTHING if epoch < 0 else Need.VALIDATION
        self.reset_to = None
        self.drop_fetched()

    def require(self, need: Need, reset_to: int | None = None) -> None:
        """Stop until something has been found out."""
        self.need, self.reset_to = need, reset_to
        self.drop_fetched()

    def drop_fetched(self) -> None:
        """Throw away what was fetched, and go back to the position."""
        self.version += 1
        self._position, self._epoch = self.position, self.epoch
        self.ready, self.ready_at = [], 0
        self.fetched.clear()
        self.fetched_bytes = 0
        self.fetch_offset = self.position

    def add(self, chunk: Chunk) -> None:
        """Take what a fetch has brought."""
        self.fetched.append(chunk)
        self.fetched_bytes += chunk.size_bytes
        self.fetch_offset = chunk.next_offset

    def fail(self, error: Exception) -> None:
        """Raise an error when all that came before it has been handed out."""
        if not self.has_failed:
            self.fetched.append(error)

    def pop(self) -> Chunk | Exception:
        """Return the next thing that was fetched."""
        found = self.fetched.popleft()
        if isinstance(found, Chunk):
            self.fetched_bytes -= found.size_bytes
        return found

    def set_ready(self, records: list[ConsumerRecord], chunk: Chunk) -> None:
        """Have decoded a chunk."""
        self.after_ready = chunk.next_offset, chunk.next_epoch
        if records:
            self.ready, self.ready_at = records, 0
        else:
            self.finish_ready()

    def hand_out(self, most: int) -> list[ConsumerRecord]:
        """Return the next records that are ready, and move the position behind them."""
        start, end = self.ready_at, self.ready_at + most
        if end < len(self.ready):
            self.ready_at = end
            return self.ready[start:end]
        records = self.ready if start == 0 else self.ready[start:]
        self.finish_ready()
        return records

    def hand_out_one(self) -> ConsumerRecord:
        """Return the next record that is ready, and move the position behind it."""
        record = self.ready[self.ready_at]
        self.ready_at += 1
        if self.ready_at == len(self.ready):
            self.finish_ready()
        return record

    def finish_ready(self) -> None:
        """Have handed out all that was ready."""
        self.ready, self.ready_at = [], 0
        self.position, self.epoch = self.after_ready
