"""Cuts what a broker sends into frames, without copying the large ones.

Bytes are read into a scratch buffer, from which small frames are copied out. A frame that the scratch
buffer cannot hold gets a buffer of its own as soon as its size is known, and the rest of it is read
straight into that.
"""

from __future__ import annotations

from ottla.protocol.frames import SIZE

SCRATCH_BYTES = 65_536
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
SMALLEST_FRAME_BYTES = 4
"""A frame has at least a correlation id."""


class BadFrame(Exception):
    """The peer names a size that no broker would."""


class ResponseReader:
    """Gives out buffers to read into, and the frames that have become whole, without their size."""

    def __init__(self) -> None:
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._filled = 0
        self._frame: memoryview | None = None
        self._frame_filled = 0

    def buffer(self) -> memoryview:
        """Return where the next bytes are to be written; it is never empty."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._scratch[self._filled :] if self._filled else self._scratch

    def received(self, count: int) -> list[memoryview]:
        """Take note of `count` bytes written into the buffer; return the frames that are whole now."""
        if self._frame is not None:
            self._frame_filled += count
            if self._frame_filled < len(self._frame):
                return []
            whole, self._frame = self._frame, None
            return [whole]
        self._filled += count
        return self._cut()

    def _cut(self) -> list[memoryview]:
        frames = []
        scratch, filled, at = self._scratch, self._filled, 0
        if filled >= 8 and SIZE.unpack_from(scratch)[0] == filled - 4:  # one frame, and all of it: as a rule
            self._filled = 0
            return [memoryview(bytes(scratch[4:filled]))]
        while filled - at >= 4:
            (size,) = SIZE.unpack_from(scratch, at)
            if not SMALLEST_FRAME_BYTES <= size <= MAX_RESPONSE_BYTES:
                raise BadFrame(f"it sent a frame of {size} bytes")
            end = at + 4 + size
            if end > filled:
                if 4 + size > SCRATCH_BYTES:
                    self._begin_large(size, scratch[at + 4 : filled])
                    at = filled
                break
            frames.append(memoryview(bytes(scratch[at + 4 : end])))
            at = end
        if at:
            rest = bytes(scratch[at:filled])
            scratch[: len(rest)] = rest
            self._filled = len(rest)
        return frames

    def _begin_large(self, size: int, begun: memoryview) -> None:
        self._frame = memoryview(bytearray(size))
        self._frame[: len(begun)] = begun
        self._frame_filled = len(begun)
