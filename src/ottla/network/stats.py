"""What the network counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class NetworkStats:
    """Plain counters since the start; `connections` is the number open now."""

    connections: int = 0
    accepted: int = 0
    rejected: int = 0
    """Connections turned away by a limit."""
    refused_frames: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    """Handed to the sockets."""
    waits: int = 0
    """Times a socket was left unread because something had to happen first."""
