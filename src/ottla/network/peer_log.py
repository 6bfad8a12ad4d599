"""Log lines about peers, few enough that a peer cannot fill the disk with them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from ottla.common.clock import Clock

logger = logging.getLogger("ottla.network")

LINES_PER_WINDOW = 20
WINDOW_MS = 10_000
NOTHING: Mapping[str, object] = MappingProxyType({})


class PeerLog:
    """Writes who and why; over 20 lines in 10 seconds are counted instead."""

    def __init__(self, clock: Clock, to: logging.Logger = logger) -> None:
        self._clock = clock
        self._logger = to
        self._window_ms = clock.mono_ms()
        self._lines = 0

    def info(self, peer: str, reason: str) -> None:
        """Say that something ordinary happened to `peer`."""
        self._log(logging.INFO, peer, reason, None)

    def warning(self, peer: str, reason: str, error: BaseException | None = None, **fields: object) -> None:
        """Say that `peer` misbehaved; or, with an `error`, that we did, and how.

        `fields` are the same in parts, for logs that programs read.
        """
        self._log(logging.WARNING if error is None else logging.ERROR, peer, reason, error, fields)

    def _log(
        self,
        level: int,
        peer: str,
        reason: str,
        error: BaseException | None,
        fields: Mapping[str, object] = NOTHING,
    ) -> None:
        now_ms = self._clock.mono_ms()
        if now_ms - self._window_ms >= WINDOW_MS:
            if self._lines > LINES_PER_WINDOW:
                left_out = self._lines - LINES_PER_WINDOW
                self._logger.warning("%d more lines about peers were left out", left_out)
            self._window_ms, self._lines = now_ms, 0
        self._lines += 1
        if self._lines <= LINES_PER_WINDOW:
            extra = {"peer": peer, **fields}
            self._logger.log(level, "%s: %s", peer, reason, exc_info=error, extra=extra)
