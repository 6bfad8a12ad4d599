"""What a log remembers of one producer: its epoch, its last batches, its open transaction."""

from __future__ import annotations

from typing import NamedTuple

BATCHES_KEPT = 5


class BatchMark(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The base offset that the batch got."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: tuple[BatchMark, ...] = ()
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = -1

    @property
    def last_sequence(self) -> int:
        """The last sequence number of this epoch, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The last offset that it wrote in this epoch, -1 if there is none."""
        return self.batches[-1].last_offset if self.batches else -1

    def take_epoch(self, epoch: int) -> None:
        """Go on in this epoch; in a new one, sequence numbers start again."""
        if self.epoch != epoch:
            self.epoch = epoch
            self.batches = ()
