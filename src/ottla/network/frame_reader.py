"""From bytes to frames, with one copy of small frames, hardly any of large ones, and no trust in lengths.

A frame on the wire:

    size      int32   number of bytes that follow
    api_key   int16   the first field of every request header, which is 8 bytes at least

Bytes arrive in a scratch buffer that all connections of a server share: a transport asks for it,
fills it and reports back with nothing in between. Frames that are complete there are copied out.
What is left of the last one is kept aside and put back in front of the next bytes, until
SMALL_FRAME_BYTES of a larger frame have really come; only then does it get memory of its own,
charged to the broker's budget, and the rest is received straight into that. So a lying length
costs nothing.
"""

from __future__ import annotations

import asyncio
import struct
from abc import ABC, abstractmethod

from ottla.network.budget import Budget, LargeFrame
from ottla.network.limits import NetworkStats

HEAD = struct.Struct(">ih")
HEAD_BYTES = HEAD.size
SIZE_BYTES = 4
MIN_FRAME_BYTES = 8
SMALL_FRAME_BYTES = 16 << 10
SCRATCH_BYTES = 128 << 10

NOTHING = bytearray()


class FrameReader(asyncio.BufferedProtocol, ABC):
    """The receiving half of a connection."""

    __slots__ = (
        "_filled",
        "_frame",
        "_frame_bytes",
        "_frames_begun",
        "_leftover",
        "_received",
        "_scratch",
        "_stats",
    )

    def __init__(self, scratch: bytearray, frame_bytes: Budget, stats: NetworkStats) -> None:
        self._scratch = scratch
        self._frame_bytes = frame_bytes
        self._stats = stats
        self._leftover = NOTHING  # received, not dispatched
        self._frame: LargeFrame | None = None  # being received
        self._filled = 0  # how much of it
        self._frames_begun = 0
        self._received = 0

    @abstractmethod
    def _dispatch(self, buffer: bytearray, end: int) -> None:
        """Deal with the frames in `buffer[:end]`, and `_keep` the rest."""

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Return where the next bytes go."""
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        if not self._leftover:
            return self._scratch
        kept = len(self._leftover)
        self._scratch[:kept] = self._leftover
        return memoryview(self._scratch)[kept:]

    def buffer_updated(self, nbytes: int) -> None:
        """Take note of the bytes that came."""
        self._received += nbytes
        self._stats.bytes_in += nbytes
        frame = self._frame
        if frame is None:
            end = nbytes
            if self._leftover:
                end += len(self._leftover)
                self._leftover = NOTHING
            self._dispatch(self._scratch, end)
        else:
            self._filled += nbytes
            if self._filled == len(frame):
                self._frame = None
                self._dispatch(frame, self._filled)

    def _large_frame(self, buffer: bytearray, at: int, end: int, size: int) -> LargeFrame:
        """Give a large frame its memory, holding what came of it; if that is not all, receive the rest."""
        if type(buffer) is LargeFrame:
            return buffer
        frame = LargeFrame(self._frame_bytes, SIZE_BYTES + size)
        here = min(end - at, len(frame))
        frame[:here] = memoryview(buffer)[at : at + here]
        if here < len(frame):
            self._frame, self._filled = frame, here
            self._frames_begun += 1
        return frame

    def _keep(self, buffer: bytearray, at: int, end: int) -> None:
        """Keep `buffer[at:end]` until more comes or until its turn has come."""
        if at == end:
            return
        if buffer is self._scratch:
            self._leftover = buffer[at:end]
        else:
            if at:
                del buffer[:at]  # moves no bytes
            self._leftover = buffer

    def _drop_input(self) -> None:
        """Forget what was received and not dispatched."""
        self._frame, self._leftover = None, NOTHING
