"""What clients may ask of the network, all together and one by one."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.common.units import MAX_INT

# What the network counts.


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """Bounds of a server, with Kafka's key where there is one."""

    max_connections: int = MAX_INT
    """max.connections; brokers in the reserve do not count"""
    max_connections_per_ip: int = MAX_INT
    """max.connections.per.ip"""
    descriptor_connections: int = MAX_INT
    """How many connections of clients the descriptor limit leaves room for."""
    broker_reserve: int = 0
    """How many connections more there may be, of brokers only."""
    first_request_ms: int = 2_000
    """How long a connection in the reserve may take to send its first request."""
    max_idle_ms: int = 600_000
    """connections.max.idle.ms; negative for no limit"""
    stall_ms: int = 30_000
    """How long a started frame may go without a byte, and a closing connection without progress."""
    pressed_ms: int = 2_000
    """How long a started large frame may take while others wait for the memory that it holds."""
    queued_requests: int = 500
    """queued.max.requests: overlapping requests unanswered; others are bounded by one per connection"""
    queued_request_bytes: int = 256 << 20
    """queued.max.request.bytes: memory held by frames above SMALL_FRAME_BYTES; negative for no limit"""
    max_requests_per_connection: int = 64
    """Overlapping requests unanswered on one connection before its socket is left unread."""
    send_buffer_bytes: int = -1
    """socket.send.buffer.bytes; -1 leaves it to the system"""
    receive_buffer_bytes: int = -1
    """socket.receive.buffer.bytes; -1 leaves it to the system"""
    sweep_interval_ms: int = 1_000
    """How often idle and stalled connections are looked for."""
