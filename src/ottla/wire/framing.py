"""Frames: request headers encoded, responses split off the byte stream without copying the large ones.

    request   int32 size, int16 api_key, int16 version, int32 correlation_id, client_id, body
    response  int32 size, int32 correlation_id, body

The header of a request differs only in its size and correlation id from the one before with the same API
and version, so the rest is encoded once. Responses are read into a scratch buffer, from which small frames
are copied out. A frame that the scratch buffer cannot hold gets a buffer of its own as soon as its size is
known, and the rest of it is read straight into that.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from ottla.protocol.frames import SIZE, RequestHeader, encode_request_header
from ottla.protocol.primitives import Buffer

JOINED_BYTES = 16_384
"""A request up to this size is written in one piece: to copy it is cheaper than to write several."""

SCRATCH_BYTES = 65_536
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
MIN_RESPONSE_BYTES = 4
"""A response has at least a correlation id."""

_SIZE_AND_IDS = Struct(">ihhi")
_IDS_BYTES = 8


class RequestFramer:
    """Adds the headers to the requests of one client id."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._tails: dict[tuple[int, int], bytes] = {}
        """The header after the correlation id, by API and version."""

    def frame(
        self, api_key: int, version: int, correlation_id: int, body: Sequence[Buffer]
    ) -> tuple[Buffer, ...]:
        """Return a request with its size and header, in one piece if it is small."""
        body_bytes = sum(map(len, body))
        tail = self._tails.get((api_key, version))
        if tail is None:
            header = encode_request_header(RequestHeader(api_key, version, 0, self._client_id))
            tail = self._tails[api_key, version] = header[_IDS_BYTES:]
        size = _IDS_BYTES + len(tail) + body_bytes
        head = _SIZE_AND_IDS.pack(size, api_key, version, correlation_id) + tail
        return (head, *body) if body_bytes > JOINED_BYTES else (b"".join((head, *body)),)


class BadFrame(Exception):
    """The server sent a frame size that no broker would send."""


class ResponseReader:
    """Provides the buffers to read into, and splits what was read into frames, without their size."""

    def __init__(self) -> None:
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._filled = 0
        self._frame: memoryview | None = None
        """The large frame that is being read."""
        self._frame_filled = 0

    def buffer(self) -> memoryview:
        """Return where the next bytes are to be written; it is never empty."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._scratch[self._filled :] if self._filled else self._scratch

    def received(self, count: int) -> list[memoryview]:
        """Return the frames that are complete now that `count` bytes were written into the buffer."""
        if self._frame is not None:
            self._frame_filled += count
            if self._frame_filled < len(self._frame):
                return []
            whole, self._frame = self._frame, None
            return [whole]
        self._filled = filled = self._filled + count
        if filled >= 8 and SIZE.unpack_from(self._scratch)[0] == filled - 4:  # usually it is one whole frame
            self._filled = 0
            return [memoryview(bytes(self._scratch[4:filled]))]
        return self._split()

    def _split(self) -> list[memoryview]:
        frames = []
        scratch, filled, position = self._scratch, self._filled, 0
        while filled - position >= 4:
            (size,) = SIZE.unpack_from(scratch, position)
            if not MIN_RESPONSE_BYTES <= size <= MAX_RESPONSE_BYTES:
                raise BadFrame(f"it sent a frame of {size} bytes")
            end = position + 4 + size
            if end > filled:
                if 4 + size > SCRATCH_BYTES:
                    self._start_large_frame(size, scratch[position + 4 : filled])
                    position = filled
                break
            frames.append(memoryview(bytes(scratch[position + 4 : end])))
            position = end
        if position:
            rest = bytes(scratch[position:filled])
            scratch[: len(rest)] = rest
            self._filled = len(rest)
        return frames

    def _start_large_frame(self, size: int, received: memoryview) -> None:
        self._frame = memoryview(bytearray(size))
        self._frame[: len(received)] = received
        self._frame_filled = len(received)
