"""The first offset of every leader epoch in a log.

File `leader-epoch-checkpoint`, text:

    0                 version
    2                 number of lines that follow
    0 0               epoch, first offset
    3 1742

The file is written when the log is flushed or closed, not when an epoch begins: after a crash, everything
above the recovery point is read from the batches, so the file only has to be correct below it. Both columns
ascend.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ottla.log.checkpoints import decode_lines, encode_lines

NO_EPOCH = -1
NO_OFFSET = -1


class EpochCache:
    """The first offset of each leader epoch."""

    __slots__ = ("_epochs", "_starts", "latest_epoch", "version")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = NO_EPOCH
        self.version = 0
        """Incremented with every change; 0 is as loaded."""
        for epoch, start in entries or []:
            self.assign(epoch, start)
        self.version = 0

    def entries(self) -> list[tuple[int, int]]:
        """Return (epoch, first offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Set that `epoch` begins at `start_offset`; later entries that contradict this are dropped."""
        if epoch < 0 or start_offset < 0:
            return
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._changed()

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch that `offset` was written in, -1 if it is before the first known epoch."""
        index = bisect_right(self._starts, offset) - 1
        return NO_EPOCH if index < 0 else self._epochs[index]

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (the largest epoch <= `epoch`, its end offset), as OffsetForLeaderEpoch does.

        (-1, -1) if `epoch` is later than all known ones; an epoch before the first known one ends where that
        starts.
        """
        if epoch == NO_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        return (self._epochs[above - 1] if above else epoch), self._starts[above]

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or after `end_offset`, where the log now ends."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:]
            del self._starts[keep:]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Make the first epoch begin at `start_offset`, where the log now starts, and drop earlier ones."""
        index = bisect_right(self._starts, start_offset) - 1
        if index > 0 or (index == 0 and self._starts[0] != start_offset):
            del self._epochs[:index]
            del self._starts[:index]
            self._starts[0] = start_offset
            self._changed()

    def clear(self) -> None:
        """Drop all epochs."""
        self.truncate_from_end(0)

    def _changed(self) -> None:
        self.latest_epoch = self._epochs[-1] if self._epochs else NO_EPOCH
        self.version += 1

    def encode(self) -> bytes:
        """Return the checkpoint file's contents."""
        return encode_lines(f"{epoch} {start}" for epoch, start in self.entries())

    @classmethod
    def decode(cls, data: bytes) -> EpochCache:
        """Return what `encode` wrote; ValueError if it does not parse or does not ascend."""
        entries: list[tuple[int, int]] = []
        for line in decode_lines(data):
            epoch, start = (int(word) for word in line.split(" "))
            if epoch < 0 or start < 0 or (entries and (epoch <= entries[-1][0] or start <= entries[-1][1])):
                raise ValueError(f"{line!r} does not follow {entries[-1:]}")
            entries.append((epoch, start))
        return cls(entries)
