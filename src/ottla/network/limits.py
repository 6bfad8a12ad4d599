"""The network's configured limits and its counters."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.common.units import MAX_INT


@dataclass(slots=True)
class NetworkStats:
    """Counters since the start; `connections` is the number that are open now."""

    connections: int = 0
    accepted: int = 0
    rejected: int = 0
    """Connections rejected by a limit."""
    throttled: int = 0
    """Connections refused by the quota of their address."""
    delayed: int = 0
    """Connections that waited for their turn (max.connection.creation.rate)."""
    refused_frames: int = 0
    handshakes: int = 0
    """TLS handshakes that succeeded."""
    failed_handshakes: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    """Passed to the sockets."""
    waits: int = 0
    """How often a socket was not read because a request in it had to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """Limits of a server, with Kafka's key where there is one."""

    max_connections: int = MAX_INT
    """max.connections; brokers in the reserve do not count"""
    max_connections_per_ip: int = MAX_INT
    """max.connections.per.ip"""
    descriptor_connections: int = MAX_INT
    """How many client connections the file descriptor limit allows."""
    broker_reserve: int = 0
    """How many additional connections brokers may have."""
    first_request_ms: int = 2_000
    """How long a connection in the reserve may take to send its first request, or to authenticate."""
    handshakes: int = 64
    """TLS handshakes in flight: each takes about a millisecond of the processor"""
    waiting_handshakes: int = 1_024
    """Accepted TLS connections whose handshake has not begun."""
    handshake_ms: int = 10_000
    """How long a TLS handshake may take."""
    crowded_handshake_ms: int = 2_000
    """How long it may take while others wait for their turn."""
    authentication_ms: int = 10_000
    """How long a client may take to authenticate."""
    unauthenticated: int = 256
    """If more clients than these have not authenticated, the silent ones among them are closed early."""
    crowded_authentication_ms: int = 2_000
    """How long they may be silent then."""
    max_idle_ms: int = 600_000
    """connections.max.idle.ms; negative for no limit"""
    stall_ms: int = 30_000
    """How long a started frame may receive no byte, and a closing connection make no progress."""
    scarce_memory_ms: int = 2_000
    """How long a started large frame may take while others wait for the memory that it holds."""
    queued_requests: int = 500
    """queued.max.requests: pending overlapping requests; others are limited to one per connection"""
    queued_request_bytes: int = 256 << 20
    """queued.max.request.bytes: memory held by frames above SMALL_FRAME_BYTES; negative for no limit"""
    max_requests_per_connection: int = 64
    """Pending overlapping requests on one connection before its socket is no longer read."""
    send_buffer_bytes: int = -1
    """socket.send.buffer.bytes; -1 leaves it to the system"""
    receive_buffer_bytes: int = -1
    """socket.receive.buffer.bytes; -1 leaves it to the system"""
    sweep_interval_ms: int = 1_000
    """How often connections are checked for being idle or stalled."""
