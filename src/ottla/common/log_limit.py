"""Limit repeated log lines: the first few of a kind in a while, then how many more there were.

A full disk would log one line for every append, a ZooKeeper that is away one for every attempt. `LineLimit`
is the rule; three users apply it. `RepeatedLines` is on the broker's log handler: lines are of one kind if
they come from the same call, that is the same logger, level and text before its arguments are put in.
`PeerLog` (network/peer_log.py) applies it to everything that clients can provoke. `RepeatedWarnings` is for
loops that retry.

Events of the cluster (`extra={"event": ...}`) are never left out: each of them happens once. Nor are the
lines of audit logs, and those of an access log that was asked for (DEBUG): all of them come from one call.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable

from ottla.common.clock import Clock, SystemClock

LINES = 5
WINDOW_S = 30.0
WARNING_WINDOW_S = 60.0
MAX_KINDS = 1_000
"""More kinds than there are calls in the source; the oldest is forgotten."""
UNLIMITED = ("event", "peer")
"""Fields of lines that are not limited here: `PeerLog` has limited those with a peer."""
COMPLETE = {
    "ottla.audit": logging.CRITICAL,
    "ottla.console.audit": logging.CRITICAL,
    "ottla.http.access": logging.DEBUG,
}
"""Loggers whose lines are all written, up to a level."""


class LineLimit:
    """Admits `lines` of a kind in `window_s` seconds."""

    def __init__(self, lines: int, window_s: float) -> None:
        self._lines = lines
        self._window_s = window_s
        self._windows: dict[Hashable, tuple[float, int]] = {}
        """When the window of a kind began, and how many lines came since."""

    def admit(self, kind: Hashable, now_s: float) -> int | None:
        """Return None if a line is left out; otherwise how many of its kind were left out before it."""
        began_s, lines = self._windows.get(kind, (now_s, 0))
        if not 0 <= now_s - began_s < self._window_s:
            del self._windows[kind]
            began_s, before = now_s, lines
            lines = 0
        else:
            before = 0
        if kind not in self._windows and len(self._windows) >= MAX_KINDS:
            del self._windows[next(iter(self._windows))]
        self._windows[kind] = (began_s, lines + 1)
        return None if lines >= self._lines else max(0, before - self._lines)


class RepeatedLines(logging.Filter):
    """A filter for handlers."""

    def __init__(self, lines: int = LINES, window_s: float = WINDOW_S) -> None:
        super().__init__()
        self._limit = LineLimit(lines, window_s)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a line; add how many of its kind were left out before it."""
        if record.levelno <= COMPLETE.get(record.name, -1) or any(
            hasattr(record, name) for name in UNLIMITED
        ):
            return True
        left_out = self._limit.admit((record.name, record.levelno, str(record.msg)), record.created)
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} more such lines were left out before)"
            record.args = ()
            record.left_out = left_out
        return left_out is not None


class RepeatedWarnings:
    """Warnings about a condition that lasts: logged once a minute, not with each retry."""

    def __init__(self, log: logging.Logger, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._limit = LineLimit(1, WARNING_WINDOW_S)

    def warn(self, kind: str, message: str, error: Exception | None = None) -> None:
        """Log a message, with `error` where it comes from, and how many of its kind were left out."""
        left_out = self._limit.admit(kind, self._clock.mono_ms() / 1000)
        if left_out is not None:
            more = f" ({left_out} more such lines were left out before)" if left_out else ""
            self._log.warning("%s%s", message, more, exc_info=error)
