"""The seam between the network and what answers requests."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ottla.common.file_range import FileRange

if TYPE_CHECKING:
    from ottla.network.connection import Connection

Chunk: TypeAlias = bytes | memoryview | FileRange

# Whole frames, each with its size prefix; in pieces (a list or tuple) when file ranges are among them.
Reply: TypeAlias = bytes | Sequence[Chunk]


class RequestHandler(Protocol):
    """Answers frames. Every method is called on the event loop and must return quickly."""

    def frame_limit(self, connection: Connection, api_key: int) -> int:
        """Return how large a frame of this API may be on this connection.

        Asked as soon as the size and the API key are there, before any memory is given to the
        frame. Frames up to `SMALL_FRAME_BYTES` are read without asking.
        """
        ...

    def handle(self, connection: Connection, frame: memoryview) -> Reply | Awaitable[Reply | None] | None:
        """Answer one request; None means that it gets no answer (Produce with acks=0).

        `frame` starts after the size prefix; it is writable, never reused, and counts against
        the broker's budget for as long as it is kept. A returned awaitable is never cancelled
        when the client goes away (it may be sharing what it waits for); only a stop that runs
        out of grace cancels it. An exception closes the connection, with one log line for a
        KafkaError (the peer's mistake) and a traceback for anything else (ours).
        """
        ...

    def may_overlap(self, api_key: int) -> bool:
        """Return whether requests of this kind may run while earlier ones of such a kind still do."""
        ...

    def is_from_broker(self, frame: memoryview) -> bool:
        """Return whether a request comes from another broker of the cluster."""
        ...

    def connection_made(self, connection: Connection) -> None:
        """Take note of a new connection."""
        ...

    def connection_lost(self, connection: Connection) -> None:
        """Take note that a connection is gone; answering what it still waits for frees its place."""
        ...
