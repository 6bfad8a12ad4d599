"""The slow-request log: which client sent what, and where the time went. At most 20 lines in 10 seconds."""

from __future__ import annotations

import logging

from ottla.api.support.context import RequestContext
from ottla.common.clock import Clock
from ottla.network.peer_log import PeerLog
from ottla.protocol.api_keys import ApiKey

logger = logging.getLogger("ottla.slow")

WAIT_BY_DESIGN = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""APIs whose clients choose how long to wait, for records or for other members: only local time counts."""


class SlowRequests:
    """Logs the requests that took longer than `limit_s`; an infinite limit disables it."""

    def __init__(self, clock: Clock, limit_ms: int) -> None:
        self._log = PeerLog(clock, logger)
        self.count = 0
        self.set_limit(limit_ms)

    def set_limit(self, limit_ms: int) -> None:
        """Set the limit; a negative one disables the log."""
        self.limit_s = limit_ms / 1000 if limit_ms >= 0 else float("inf")

    def note(self, ctx: RequestContext, local_s: float, total_s: float) -> None:
        """Log a request if it was slow."""
        if (local_s if ctx.api_key in WAIT_BY_DESIGN else total_s) <= self.limit_s:
            return
        self.count += 1
        local_ms, total_ms = round(local_s * 1000), round(total_s * 1000)
        client = "no client id" if ctx.client_id is None else f"client {ctx.client_id!r}"
        self._log.warning(
            ctx.connection.peer,
            f"slow {ctx.times.api} v{ctx.version} of {client}: {total_ms} ms, "
            f"{local_ms} ms on the event loop and {total_ms - local_ms} ms waiting",
            api=ctx.times.api,
            version=ctx.version,
            client_id=ctx.client_id,
            total_ms=total_ms,
            local_ms=local_ms,
            waiting_ms=total_ms - local_ms,
        )
