"""Log lines about peers, few enough that a peer cannot fill the disk with them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from ottla.common.clock import Clock
from ottla.common.log_limit import LineLimit

logger = logging.getLogger("ottla.network")

LINES_PER_WINDOW = 20
WINDOW_S = 10.0
NOTHING: Mapping[str, object] = MappingProxyType({})


class PeerLog:
    """Writes who and why; over 20 lines in 10 seconds are counted instead."""

    def __init__(self, clock: Clock, to: logging.Logger = logger) -> None:
        self._clock = clock
        self._logger = to
        self._limit = LineLimit(LINES_PER_WINDOW, WINDOW_S)

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
        left_out = self._limit.admit("peers", self._clock.mono_ms() / 1000)
        if left_out is None:
            return
        if left_out:
            self._logger.warning("%d more lines about peers were left out", left_out)
        self._logger.log(level, "%s: %s", peer, reason, exc_info=error, extra={"peer": peer, **fields})


TLS_RECORDS = range(0x160300, 0x160305)
"""The first three bytes of a TLS handshake, in versions 1.0 to 1.3."""
HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI ")


def wrong_protocol(size: int) -> str | None:
    """Return what a peer seems to speak whose first bytes, read as a frame's size, make no sense."""
    head = size.to_bytes(4, "big", signed=True)
    if int.from_bytes(head[:3], "big") in TLS_RECORDS:
        return "the client speaks TLS, and this listener does not: set its security.protocol to another"
    if head in HTTP_METHODS:
        return "the client speaks HTTP, and this is a Kafka listener"
    return None
