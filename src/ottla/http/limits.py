"""How large, how slow and how many requests may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one server; what exceeds them is answered with 408, 413, 431 or 503, or disconnected."""

    max_head_bytes: int = 32 * 1024
    """Request line and headers."""
    max_body_bytes: int = 10 * 1024 * 1024
    max_bodies_bytes: int = 64 * 1024 * 1024
    """All bodies in flight together. Small ones are accepted beyond it: large ones must not shut them out."""
    small_body_bytes: int = 64 * 1024
    head_timeout_s: float = 10.0
    """From the connection, or the first byte of a further request, to the end of its headers."""
    body_timeout_s: float = 20.0
    request_timeout_s: float = 60.0
    """From the headers to the answer."""
    write_timeout_s: float = 20.0
    """How long a client may read nothing of its response."""
    keep_alive_s: float = 75.0
    max_connections: int = 1_000
    graceful_stop_s: float = 10.0
    """How long requests in flight may take when the server is stopped."""
