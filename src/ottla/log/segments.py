"""The segments of one log in order, and how they are added, removed and replaced.

After a crash at any point of these steps, opening the log can finish or undo them
(`loader.remove_leftovers`): a segment exists if and only if its .log file does.

    removed     .log first, then the rest, to .deleted
    replaced    new ones .cleaned -> .swap (.log last), directory fsynced: from here the swap happens;
                old ones -> .deleted; new ones .swap -> final names (.log last), directory fsynced

A rename that fails leaves the list and the files consistent: the step is undone. Where it cannot be undone,
the old segments are still read under their new names and the log directory goes offline for writes, so that
only the next start, which finishes the step, changes anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from zlib import crc32

from ottla.log.file_names import DELETED, SWAP
from ottla.log.log_config import INT_MAX, LogConfig
from ottla.log.segment import Segment
from ottla.log.storage import Storage
from ottla.protocol.errors import RecordListTooLarge

_MAX_ENTRY_BYTES = 12
_BELOW_ALL = -2
"""Smaller than every timestamp and offset, so that the next append calls `is_due`."""


class RollRule:
    """Decides when a log rolls: the active segment is full, old, or out of relative offsets.

    `after_ms` and `after_offset` save most appends the call of `is_due`.
    """

    __slots__ = ("_config", "after_ms", "after_offset")

    def __init__(self, config: LogConfig) -> None:
        self.reset(config)

    def reset(self, config: LogConfig) -> None:
        """Start again for another active segment or configuration."""
        self._config = config
        self.after_ms = _BELOW_ALL
        self.after_offset = _BELOW_ALL

    def is_due(self, active: Segment, size: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        """Return whether a batch must go into a new segment.

        Age counts from the first batch's timestamp to this one's, or by the clock if the first has none.
        """
        config = self._config
        if size > config.segment_bytes:
            raise RecordListTooLarge(f"the batch has {size} bytes, segment.bytes is {config.segment_bytes}")
        if active.size_bytes == 0:
            return False
        first_ms = active.first_timestamp
        max_age_ms = config.max_segment_age_ms
        max_age_ms -= self._jitter_ms(active, max_age_ms)
        age_ms = timestamp - first_ms if first_ms >= 0 else now_ms - active.created_ms
        if (
            active.size_bytes + size > config.segment_bytes
            or age_ms > max_age_ms
            or last_offset - active.base_offset > INT_MAX
            or active.index_bytes + _MAX_ENTRY_BYTES > config.segment_index_bytes
        ):
            return True
        if first_ms >= 0:
            self.after_ms = first_ms + max_age_ms
        most_entries = config.segment_bytes // max(1, config.index_interval_bytes)
        if most_entries * _MAX_ENTRY_BYTES < config.segment_index_bytes:
            self.after_offset = active.base_offset + INT_MAX
        return False

    def _jitter_ms(self, active: Segment, max_age_ms: int) -> int:
        """Return a share of segment.jitter.ms that spreads the rolls of many logs; constant for one
        segment.
        """
        jitter_ms = min(self._config.segment_jitter_ms, max_age_ms)
        if jitter_ms <= 0:
            return 0
        return crc32(f"{active.files.directory}/{active.base_offset}".encode()) % jitter_ms


_base_offset = attrgetter("base_offset")


class Segments:
    """One log's segments, by base offset; the last one is active."""

    __slots__ = ("all", "directory", "storage")

    def __init__(self, storage: Storage, directory: str, segments: list[Segment]) -> None:
        self.storage = storage
        self.directory = directory
        self.all = segments
        """Only this class changes the list."""

    @property
    def active(self) -> Segment:
        """Return the segment that is appended to."""
        return self.all[-1]

    @property
    def sealed(self) -> list[Segment]:
        """Return all but the active one, oldest first."""
        return self.all[:-1]

    @property
    def size_bytes(self) -> int:
        """Return the size of all .log files."""
        return sum(segment.size_bytes for segment in self.all)

    def index_of(self, offset: int) -> int:
        """Return the index of the last segment that starts at or before `offset` (0 if all start later)."""
        if self.all[-1].base_offset <= offset:
            return len(self.all) - 1
        return max(0, bisect_right(self.all, offset, key=_base_offset) - 1)

    def start_new(self, base_offset: int, config: LogConfig, now_ms: int) -> Segment:
        """Create an empty segment and make it the active one."""
        segment = Segment.create(self.storage, self.directory, base_offset, config, now_ms=now_ms)
        self.all.append(segment)
        return segment

    def remove(self, segments: Sequence[Segment]) -> list[str]:
        """Remove the oldest segments, which must be exactly these. Return the files' new names."""
        count = len(segments)
        if count >= len(self.all) or list(segments) != self.all[:count]:
            raise ValueError("only the oldest segments can be removed, and never the active one")
        renamed: list[str] = []
        for segment in segments:
            segment.change_suffix(DELETED)
            del self.all[0]
            renamed += segment.files.paths()
        return renamed

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
        """Replace `old` by `new` (complete, fsynced, .cleaned); return the old files' new names."""
        index = next((i for i, segment in enumerate(self.all) if old and segment is old[0]), -1)
        if index < 0 or list(old) != self.all[index : index + len(old)] or index + len(old) >= len(self.all):
            raise ValueError("only sealed segments that are next to each other can be replaced")
        self._announce(new)
        try:
            for segment in old:
                segment.change_suffix(DELETED)
            for segment in new:
                segment.change_suffix("")
            self.storage.disk.fsync_dir(self.directory)
        except OSError as error:
            self.storage.take_offline(f"swapping segments of {self.directory}: {error}")
            raise
        self.all[index : index + len(old)] = new
        return [path for segment in old for path in segment.files.paths()]

    def _announce(self, new: Sequence[Segment]) -> None:
        """Commit to the swap by renaming `new` to .swap; remove them if that fails."""
        try:
            for segment in reversed(new):
                segment.change_suffix(SWAP)
            self.storage.disk.fsync_dir(self.directory)
        except OSError as error:
            try:
                for segment in new:
                    segment.remove()
            except OSError as worse:
                self.storage.take_offline(f"{self.directory}: cannot undo a partial swap ({error}): {worse}")
            raise

    def drop_above(self, offset: int) -> None:
        """Remove the segments that start after `offset`, newest first; at least one stays."""
        while len(self.all) > 1 and self.all[-1].base_offset > offset:
            self.all.pop().remove()

    def drop_all(self) -> None:
        """Remove every segment, newest first; a new one must be started next."""
        while self.all:
            self.all.pop().remove()

    def close(self) -> None:
        """Release all descriptors."""
        for segment in self.all:
            segment.close()
