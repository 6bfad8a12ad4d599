"""How far a group is behind in one partition: the one definition, for the broker's metrics and for tools.

    records   from the committed offset to the end, as every Kafka tool counts: a difference of offsets
    seconds   the age of the first record that the group has not read; 0 when there is none

A record that the group has not read and that retention has deleted has no age any more: then the oldest
record that is left counts.
"""

from __future__ import annotations

from typing import NamedTuple


class Lag(NamedTuple):
    """How far behind; `seconds` is None if that record has no timestamp."""

    records: int
    seconds: float | None


CAUGHT_UP = Lag(0, 0.0)


def first_unread(committed_offset: int, start_offset: int, end_offset: int) -> int | None:
    """Return the offset of the first record that is left to read, or None if there is none."""
    first = max(committed_offset, start_offset)
    return first if first < end_offset else None


def lag(committed_offset: int, end_offset: int, first_unread_ms: int | None, now_ms: int) -> Lag:
    """Return the lag of a group that has something to read, whose first record is of `first_unread_ms`.

    A producer's clock may be ahead of ours; a lag is never below 0 seconds.
    """
    if first_unread_ms is None or first_unread_ms < 0:
        seconds = None
    else:
        seconds = max(0, now_ms - first_unread_ms) / 1000
    return Lag(max(0, end_offset - committed_offset), seconds)
