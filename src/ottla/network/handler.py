"""The interface between the network and the request handlers."""

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
    """Handles request frames. Every method is called on the event loop and must return quickly."""

    def frame_limit(self, connection: Connection, api_key: int) -> int:
        """Return the maximum frame size of this API on this connection.

        Called as soon as the size and the API key have arrived, before memory is allocated for the frame.
        Frames up to `SMALL_FRAME_BYTES` are read without this call.
        """
        ...

    def handle(self, connection: Connection, frame: memoryview) -> Reply | Awaitable[Reply | None] | None:
        """Handle one request; None means that there is no response (Produce with acks=0).

        `frame` starts after the size prefix. It is writable, is never reused, and counts against the broker's
        budget while it is referenced. A returned awaitable is not cancelled when the client disconnects
        (others may share what it waits for); only a stop whose grace period is over cancels it. An exception
        closes the connection: a KafkaError is the peer's mistake and logs one line, anything else is a bug of
        ours and logs a traceback.
        """
        ...

    def may_overlap(self, api_key: int) -> bool:
        """Return whether requests of this API may run while earlier ones of such an API are running."""
        ...

    def is_from_broker(self, connection: Connection, frame: memoryview) -> bool | None:
        """Return whether a request comes from another broker of the cluster; None: not known yet."""
        ...

    def connection_made(self, connection: Connection) -> None:
        """Handle a new connection."""
        ...

    def connection_lost(self, connection: Connection) -> None:
        """Handle the end of a connection; completing its pending responses frees its place."""
        ...
