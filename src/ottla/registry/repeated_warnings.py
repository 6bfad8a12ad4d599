"""Logs trouble that lasts, once a minute instead of each time that something is tried again."""

from __future__ import annotations

import logging

from ottla.common.clock import Clock, SystemClock
from ottla.common.log_limit import LineLimit

WINDOW_S = 60.0


class RepeatedWarnings:
    """Warnings of one logger; those of the same kind are limited."""

    def __init__(self, log: logging.Logger, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._limit = LineLimit(1, WINDOW_S)

    def warn(self, kind: str, message: str, error: Exception | None = None) -> None:
        """Log a message, with `error` where it comes from, and how many of its kind were left out."""
        left_out = self._limit.admit(kind, self._clock.mono_ms() / 1000)
        if left_out is not None:
            more = f" ({left_out} more such lines were left out before)" if left_out else ""
            self._log.warning("%s%s", message, more, exc_info=error)
